package textedit

import (
	"errors"
	"regexp"
)

// VariableName matches the name of an environment variable.
var VariableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// SafeWord is what means itself in an environment file and on the command line that systemd makes of it.
var SafeWord = regexp.MustCompile(`^[A-Za-z0-9_./:,=@%+~*<>()-]*$`)

// ErrUnsafeWord refuses a value that would not mean itself in an environment file.
var ErrUnsafeWord = errors.New(
	"its value holds a space, a quote or another character that a unit's environment would change",
)

// Word is an argument and the place where it is written.
type Word struct {
	Value      string
	Start, End int
}

// Letter is a character of a value and the place where it is written.
type Letter struct {
	Char       byte
	Start, End int
}

// SplitWords makes arguments of a value, as systemd does for a variable that is a whole word of a command line. It
// splits at unquoted spaces.
func SplitWords(letters []Letter) ([]Word, error) {
	var out []Word
	for i := 0; i < len(letters); {
		if IsSpace(letters[i].Char) {
			i++
			continue
		}
		w, next, err := readWord(letters, i)
		if err != nil {
			return nil, err
		}
		out = append(out, w)
		i = next
	}
	return out, nil
}

// readWord reads up to the next space that is in no quotes, and returns where it stopped.
func readWord(letters []Letter, i int) (Word, int, error) {
	w := Word{Start: letters[i].Start}
	var quote byte
	var value []byte
	for ; i < len(letters) && (quote != 0 || !IsSpace(letters[i].Char)); i++ {
		switch c := letters[i].Char; {
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(letters):
			i++
			value = append(value, letters[i].Char)
		default:
			value = append(value, c)
		}
		w.End = letters[i].End
	}
	if quote != 0 {
		return Word{}, 0, errors.New("a quote in it is not closed")
	}
	w.Value = string(value)
	return w, i, nil
}

// IsSpace reports whether a character separates words.
func IsSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' }
