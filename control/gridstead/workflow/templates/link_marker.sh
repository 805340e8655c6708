
# Writes the marker of the output's link: the URL that the server answered, or else the URL of the
# upload. Credentials in it are left out: the user, the password and the query.
link_marker() { # file with the answer, URL of the upload
  local LC_ALL=C link=''
  { IFS= read -r -n 500 link <"$1"; } 2>/dev/null || :
  link=${link%$'\r'}
  if [[ ! ${#link} -lt 500 || ! $link =~ ^[!-~]+$ ||
    ! $link =~ ^(https?://)([^/?#]*@)?([^/?#@]+)([^?#]*) ]]; then
    marker "link url=$2"
  else
    marker "link url=${BASH_REMATCH[1]}${BASH_REMATCH[3]}${BASH_REMATCH[4]}"
  fi
}
