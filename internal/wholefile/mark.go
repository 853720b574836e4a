package wholefile

import (
	"bytes"
	"fmt"
)

// Mark puts a line before YAML that says how its last line reads, and that line behind it. YAML that was cut off at the
// end of a line is still YAML. What is gone would be taken for what is not there. A program that formats the file again
// drops both lines. Kind is a word, such as plan.
func Mark(kind string, data []byte) []byte {
	head, tail := marks(kind)
	return fmt.Appendf(nil, "%s\n%s%s\n", head, data, tail)
}

// IsCutOff reports whether a file begins as Mark wrote it, and ends before its end.
func IsCutOff(kind string, data []byte) bool {
	head, tail := marks(kind)
	return bytes.HasPrefix(data, []byte(head)) && !bytes.HasSuffix(bytes.TrimSpace(data), []byte(tail))
}

func marks(kind string) (head, tail string) {
	return "# This " + kind + " is whole if its last line says so.", "# This " + kind + " is whole."
}
