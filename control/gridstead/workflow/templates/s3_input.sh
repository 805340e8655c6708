
# --- Input ---
echo "gridstead: fetching the input"
in_store "$private/input" copy %%{source} "$storage/input"
