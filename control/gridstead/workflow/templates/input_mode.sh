ls -lR -- "$storage/input"
find "$storage/input" -depth -exec chmod %%{mode} {} +
