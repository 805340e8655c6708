%%{function}_if() (
  job_environment%%{surroundings}
  exec /bin/bash -c %%{script}
)
