"""The local server of the app: the only home of starlette and uvicorn."""
