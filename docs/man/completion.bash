# The rest is the same for every program of kiln.
# shellcheck shell=bash disable=SC2034,SC2154,SC2086

# Sets the words before the cursor as the program will see them (bash also splits at ':' and '='), and
# |cur|, the word at the cursor.
_kiln_split() {
    local left=${COMP_LINE:0:COMP_POINT} part i
    words=("${COMP_WORDS[0]}")
    left=${left#*"${COMP_WORDS[0]}"}
    for ((i = 1; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        if [[ $left == [[:space:]]* ]]; then
            words+=("")
            left=${left#"${left%%[![:space:]]*}"}
        fi
        [[ ${#part} -le ${#left} ]] || part=$left
        words[-1]+=$part
        left=${left#"$part"}
    done
    cur=${words[-1]}
}

# Prints kilnctl's answer from the kilnd that the command line names. Prints nothing if none arrives
# within KILN_COMPLETION_TIMEOUT (half a second).
_kiln_ask() {
    local i to=()
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
        --socket) to=(--socket "${words[i + 1]}") ;;
        --socket=*) to=("${words[i]}") ;;
        esac
    done
    command kilnctl "$@" --timeout "${KILN_COMPLETION_TIMEOUT:-500ms}" "${to[@]}" 2>/dev/null </dev/null
}

# Prints column |2| of the table after the line that begins with |1|, up to an empty line.
_kiln_column() {
    local line in=no fields
    while IFS= read -r line; do
        if [[ $line == "$1"* ]]; then
            in=yes
        elif [[ -z $line ]]; then
            in=no
        elif [[ $in == yes ]]; then
            read -ra fields <<<"$line"
            printf '%s\n' "${fields[$2]}"
        fi
    done
}

# Prints the text of every JSON member with the name |1|.
_kiln_member() {
    local left pattern="\"$1\": *\"([^\"]*)\"(.*)"
    IFS= read -r -d '' left || :
    while [[ $left =~ $pattern ]]; do
        printf '%s\n' "${BASH_REMATCH[1]}"
        left=${BASH_REMATCH[2]}
    done
}

_kiln_list() {
    case $1 in
    target)
        _kiln_known_targets
        _kiln_ask toolchain ls | _kiln_column 'TOOLCHAIN ' 1
        ;;
    toolchain) _kiln_ask toolchain ls | _kiln_column 'NAME ' 0 ;;
    package) _kiln_ask pkg ls | _kiln_column 'NAME ' 0 ;;
    database_id) _kiln_ask device ls --json | _kiln_member database_id ;;
    job) _kiln_ask trace ls | _kiln_column 'JOB ' 0 ;;
    key) _kiln_ask kernel ls --limit 100 | _kiln_column 'KEY ' 0 ;;
    word\ *) printf '%s\n' ${1#word } ;;
    esac
}

# Offers the values of kind |1| that begin with |2|. The shell expands or runs nothing that comes from
# kilnd; names that need quoting are omitted.
_kiln_reply() {
    local item
    case $1 in
    file | directory)
        # Offer hidden files only if the word begins with a dot.
        while IFS= read -r item; do
            [[ ${item##*/} == .* && ${2##*/} != .* ]] || COMPREPLY+=("$item")
        done < <(compgen -A "${1/directory/directory}" -- "$2")
        ;;
    user) mapfile -t COMPREPLY < <(compgen -u -- "$2") ;;
    group) mapfile -t COMPREPLY < <(compgen -g -- "$2") ;;
    none) ;;
    *)
        while IFS= read -r item; do
            [[ $item == "$2"* && $item != *[!A-Za-z0-9._:+@,-]* ]] && COMPREPLY+=("$item")
        done < <(_kiln_list "$1" | sort -u)
        ;;
    esac
    if [[ $1 == file || $1 == directory ]]; then
        # readline itself expands '~' and variables.
        local how=filenames
        [[ ${#COMPREPLY[@]} -gt 0 ]] || how=default
        compopt -o "$how" 2>/dev/null
    fi
    return 0
}

# Removes from each answer the part that readline already has, up to the last ':' or '='.
_kiln_trim() {
    local head='' i
    [[ $COMP_WORDBREAKS != *:* || $cur != *:* ]] || head=${cur%"${cur##*:}"}
    if [[ $COMP_WORDBREAKS == *=* && $cur == *=* ]]; then
        i=${cur%"${cur##*=}"}
        [[ ${#i} -le ${#head} ]] || head=$i
    fi
    for i in "${!COMPREPLY[@]}"; do
        COMPREPLY[i]=$1${COMPREPLY[i]}
        COMPREPLY[i]=${COMPREPLY[i]#"$head"}
    done
}

# Parses the words before the cursor into |command|, |group| (the first word of a command of two), and
# |wanted| (the kind of value that is expected at the cursor; empty if none is).
_kiln_read() {
    local i word known last=$((${#words[@]} - 2))
    known=$'\n'$(_"$1"_commands)$'\n'
    command='' group='' wanted=''
    for ((i = 1; i <= last; i++)); do
        word=${words[i]}
        case $word in
        -- | --*=*) wanted='' ;;
        -?*)
            _"$1"_value "$command" "$word"
            wanted=$kind
            [[ -z $kind || $many == yes || $i -eq $last ]] || { wanted='' && i=$((i + 1)); }
            ;;
        help) ;;
        *)
            if [[ -n $wanted || -n $command ]]; then
                continue
            elif [[ $known == *$'\n'"${group:+$group }$word"$'\n'* ]]; then
                command=${group:+$group }$word
            elif [[ $known == *$'\n'"$word "* ]]; then
                group=$word
            elif [[ ${word##*/} != MIOpenDriver ]]; then
                command=${group:+$group }$word # there is no such command
            fi
            ;;
        esac
    done
}

# Offers the first words of the commands, or the second words of group |2|.
_kiln_next() {
    local name
    while IFS= read -r name; do
        if [[ -n $2 ]]; then
            [[ $name == "$2 "* ]] || continue
            name=${name#"$2 "}
        fi
        printf '%s\n' "${name%% *}"
    done < <(_"$1"_commands)
}

_kiln_complete() {
    local IFS=$' \t\n' cur words command group wanted kind='' many='' options=''
    COMPREPLY=()
    _kiln_split
    _kiln_read "$1"
    if [[ $cur == --*=* ]]; then
        _"$1"_value "$command" "${cur%%=*}"
        _kiln_reply "${kind:-none}" "${cur#*=}"
        _kiln_trim "${cur%%=*}="
        return 0
    fi
    if [[ -n $wanted && $cur != -* ]]; then
        _kiln_reply "$wanted" "$cur"
    elif [[ $cur == -* ]]; then
        _"$1"_options "$command"
        _kiln_reply "word $options" "$cur"
    elif [[ -z $command ]]; then
        _kiln_reply "word $(_kiln_next "$1" "$group")" "$cur"
    else
        _"$1"_words "$command"
        _kiln_reply "${kind:-none}" "$cur"
    fi
    _kiln_trim ''
}
