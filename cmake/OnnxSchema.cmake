# Finds a Python with the pinned `onnx` package, whose onnx-ml.proto is the schema that onnx/ is generated from. Unless
# TGRUN_PYTHON names one, a private environment is made at build/.venv (once; scripts/python-env), shared by all
# presets. pip brings its own. Python is needed to build and test, never to run.
if(SKBUILD)
    set(TGRUN_PYTHON ${Python_EXECUTABLE})
endif()
set(TGRUN_PYTHON "$ENV{TGRUN_PYTHON}" CACHE FILEPATH "Python interpreter that has the packages of scripts/requirements.txt")
if(NOT TGRUN_PYTHON OR NOT EXISTS ${TGRUN_PYTHON})
    set(venv ${CMAKE_SOURCE_DIR}/build/.venv)
    execute_process(COMMAND ${CMAKE_SOURCE_DIR}/scripts/python-env ${venv} COMMAND_ERROR_IS_FATAL ANY)
    set(TGRUN_PYTHON ${venv}/bin/python CACHE FILEPATH "" FORCE)
endif()
if(NOT ONNX_PROTO OR NOT EXISTS ${ONNX_PROTO})
    execute_process(COMMAND ${TGRUN_PYTHON} -c "import importlib.util, os; print(os.path.dirname(importlib.util.find_spec('onnx').origin))"
        OUTPUT_VARIABLE onnx_folder OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
    set(ONNX_PROTO ${onnx_folder}/onnx-ml.proto CACHE FILEPATH "the schema" FORCE)
endif()
