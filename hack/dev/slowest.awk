# Prints the slowest tests of what go test -json wrote, and those that failed.
function field(name,  at, rest) {
    at = index($0, "\"" name "\":")
    if (!at) return ""
    rest = substr($0, at + length(name) + 3)
    return match(rest, /^"[^"]*"/) ? substr(rest, 2, RLENGTH - 2) : substr(rest, 1, match(rest, /[,}]/) - 1)
}
/"Action":"(pass|fail)"/ {
    test = field("Test")
    if (index(test, "/")) next # its parent has its time
    if (field("Action") == "fail") { print "FAILED " field("Package") " " test; failed = 1 }
    if (test != "") printf "%8.2f s  %s  %s\n", field("Elapsed"), field("Package"), test | "sort -rn | head -n 40"
}
END { exit failed }
