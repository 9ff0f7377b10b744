// Runs a SavedModel as servers do, through TensorFlow's C API, on one row.
//
//   c_api_runner DIRECTORY OUTPUT INDEX {LIBRARY.so | OPERATION=VALUE}...
//
// A VALUE of the form i:1,2,3 is int32 [1, 3]; any other is string [1]. Prints
// the floats of result INDEX of the operation OUTPUT.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorflow/c/c_api.h"
#include "tensorflow/c/tf_tstring.h"

static void check(TF_Status* status) {
  if (TF_GetCode(status) == TF_OK) return;
  fprintf(stderr, "%s\n", TF_Message(status));
  exit(1);
}

static TF_Tensor* ids(const char* text) {
  int32_t values[512];
  int64_t shape[2] = {1, 0};
  for (char* end; *text; text = *end ? end + 1 : end)
    values[shape[1]++] = strtol(text, &end, 10);
  size_t size = shape[1] * sizeof(int32_t);
  TF_Tensor* tensor = TF_AllocateTensor(TF_INT32, shape, 2, size);
  memcpy(TF_TensorData(tensor), values, size);
  return tensor;
}

static TF_Tensor* string(const char* text) {
  int64_t shape[1] = {1};
  TF_Tensor* tensor =
      TF_AllocateTensor(TF_STRING, shape, 1, sizeof(TF_TString));
  TF_StringInit(TF_TensorData(tensor));
  TF_StringCopy(TF_TensorData(tensor), text, strlen(text));
  return tensor;
}

int main(int argc, char** argv) {
  TF_Status* status = TF_NewStatus();
  for (int i = 4; i < argc; ++i)
    if (!strchr(argv[i], '=')) TF_LoadLibrary(argv[i], status), check(status);
  const char* tags[] = {"serve"};
  TF_Graph* graph = TF_NewGraph();
  TF_Session* session =
      TF_LoadSessionFromSavedModel(TF_NewSessionOptions(), NULL, argv[1], tags,
                                   1, graph, NULL, status);
  check(status);
  TF_Output inputs[3], output = {TF_GraphOperationByName(graph, argv[2]),
                                 atoi(argv[3])};
  TF_Tensor *values[3], *result;
  int count = 0;
  for (int i = 4; i < argc; ++i) {
    char* value = strchr(argv[i], '=');
    if (!value) continue;
    *value++ = 0;
    inputs[count] = (TF_Output){TF_GraphOperationByName(graph, argv[i]), 0};
    values[count++] = strncmp(value, "i:", 2) ? string(value) : ids(value + 2);
  }
  TF_SessionRun(session, NULL, inputs, values, count, &output, &result, 1, NULL,
                0, NULL, status);
  check(status);
  const float* numbers = TF_TensorData(result);
  for (size_t i = 0; i < TF_TensorByteSize(result) / sizeof(float); ++i)
    printf("%.9g ", numbers[i]);
  return 0;
}
