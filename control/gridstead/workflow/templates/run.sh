
# Step %%{number}: %%{title}
step_%%{number}() (
  job_environment
%%{exports}  exec srun --job-name=%%{name} --export=ALL --immediate=%%{patience} %%{options} \
    %%{enter}%%{shell} -c %%{command}
)
step_%%{number}
