package developer

import (
	"net/url"
	"strings"

	"examprep.dev/server/console"
)

// maxReturnTo bounds the address that a sign-in leads to, in bytes: it travels in a cookie.
const maxReturnTo = 512

// returnTo returns target if it is the path and query of a page of the console, else the path of the first page.
func returnTo(target string) string {
	path, _, _ := strings.Cut(target, "?")
	if len(target) > maxReturnTo || strings.ContainsFunc(target, isForeign) || strings.Contains(target, "//") || !isPage(path) {
		return console.Path
	}
	return target
}

// isForeign reports whether a character is in no address of the console.
func isForeign(c rune) bool {
	isLetter := 'a' <= c|0x20 && c|0x20 <= 'z'
	return !isLetter && (c < '0' || c > '9') && !strings.ContainsRune("/_.~?&=%:,+-", c)
}

// isPage reports whether a path stays below the console's, however often a server or a browser decodes it.
func isPage(path string) bool {
	for {
		if !strings.HasPrefix(path, console.Path) || strings.Contains(path, "//") || strings.ContainsFunc(path, isHidden) {
			return false
		}
		for segment := range strings.SplitSeq(path, "/") {
			if segment == "." || segment == ".." {
				return false
			}
		}
		decoded, err := url.PathUnescape(path)
		if err != nil {
			return false
		}
		if decoded == path {
			return true
		}
		path = decoded
	}
}

// isHidden reports whether a decoded character can end a path or a header, or is a slash to some browsers.
func isHidden(c rune) bool { return c <= ' ' || c == '\\' || c == '?' || c == '#' || c > '~' }
