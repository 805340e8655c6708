%%{function}() (
  job_environment%%{surroundings}
%%{exports}  exec srun --job-name=%%{name} --export=ALL --immediate=%%{patience} %%{options} \
    %%{enter}%%{shell} -c %%{command}
)
