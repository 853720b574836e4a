package clusterview

import (
	"fmt"
	"strconv"
	"strings"
)

// ParseMinor is the minor of an image's tag or of the API server, e.g. 26 of v1.26.0.
func ParseMinor(image, fallback string) (int, error) {
	_, tag, _ := strings.Cut(image[strings.LastIndex(image, "/")+1:], ":")
	for _, v := range []string{tag, fallback} {
		parts := strings.Split(strings.TrimPrefix(v, "v"), ".")
		if len(parts) < 2 || parts[0] != "1" {
			continue
		}
		if n, err := strconv.Atoi(parts[1]); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("version of image %q is not known, nor that of the API server (%q)", image, fallback)
}
