%%{function}_if() (
  job_environment%%{outer_variables}
  exec /bin/bash -c %%{script}
)
