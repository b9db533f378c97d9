/** For bash 3.2 and newer, with and without the bash-completion package. */
export const bash = `# Completion of pets for bash. To have it in every new shell, add this line to ~/.bashrc:
#   eval "$(pets completion bash)"

_pets() {
  local line=\${COMP_LINE:0:COMP_POINT} words=() begin= word answer
  line=\${line#*"$1"}
  # Bash breaks words at = and : as well; what stands together is one word for pets.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}" ''; do
    if [[ $line == [[:blank:]]* ]]; then
      words+=("$word")
    else
      words[\${#words[@]}-1]+=$word
    fi
    line=\${line#*"$word"}
  done
  # The word at the cursor is what is left of the line; bash puts in only what stands behind its last break.
  begin=\${words[\${#words[@]}-1]}
  line=\${line#"\${line%%[![:blank:]]*}"}
  [[ $line == [=:] ]] && begin+=$line line=
  words[\${#words[@]}-1]=$begin\${line#[\\'\\"]}

  answer=$(pets completion bash -- "\${words[@]}" 2> /dev/null) || return
  COMPREPLY=()
  while IFS= read -r word; do
    case $word in
      :files) compopt -o default 2> /dev/null ;;
      :directories) compopt -o dirnames 2> /dev/null ;;
      :commands) _pets_command ;;
      :*) ;;
      *)
        word=\${word%%$'\\t'*}
        COMPREPLY+=("\${word#"$begin"}")
        ;;
    esac
  done <<< "$answer"
}

# What stands behind -- is completed as if it stood alone.
_pets_command() {
  local at=1
  while [[ \${COMP_WORDS[at]} != -- ]]; do ((at++)); done
  if declare -F _command_offset > /dev/null; then
    _command_offset $((at + 1))
  elif ((COMP_CWORD == at + 1)); then
    COMPREPLY=($(compgen -c -- "\${COMP_WORDS[COMP_CWORD]}"))
  else
    compopt -o default 2> /dev/null
  fi
}

complete -F _pets pets
`;
