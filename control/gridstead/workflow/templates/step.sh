
# Step %%{number}: %%{title}
step_%%{number}() (
  job_environment
%%{prepare}  exec srun --job-name=%%{name} --export=ALL %%{options} \
    %%{shell} -c %%{command}
)
step_%%{number}
