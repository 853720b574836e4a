package cloudconfig

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/gcfg.v1/scanner"
	"gopkg.in/gcfg.v1/token"
)

// file is a cloud config as both providers' reader takes it apart.
type file struct {
	data   []byte
	blocks []*block
}

// block is a section header with the variables below it. A section may have several.
type block struct {
	section, sub string
	start        int // of the header's line
	end          int // of the last line that belongs to it: the header's or the last variable's, with its break
	entries      []*entry
}

// title names the section as the file does.
func (b *block) title() string {
	if b.sub == "" {
		return "[" + b.section + "]"
	}
	return fmt.Sprintf("[%s %q]", b.section, b.sub)
}

func (b *block) is(section string) bool { return strings.EqualFold(b.section, section) }

// entry is a variable. Names are compared without regard to case, as the reader does.
type entry struct {
	key        string
	value      string
	start, end int // of the value as it is written, with quotes
	from, to   int // of its lines, with the break of the last
}

// raw is the value as it is written.
func (f *file) raw(e *entry) string { return string(f.data[e.start:e.end]) }

// reader goes through the tokens that the providers' own reader sees.
type reader struct {
	*file
	scan scanner.Scanner
	pos  *token.File
	errs []error

	at  int // offset of the token
	tok token.Token
	lit string
}

func parseFile(data []byte) (*file, error) {
	r := &reader{file: &file{data: data}}
	r.pos = token.NewFileSet().AddFile("", 1, len(data))
	r.scan.Init(r.pos, data, func(p token.Position, message string) {
		r.errs = append(r.errs, fmt.Errorf("line %d: %s", p.Line, message))
	}, scanner.ScanComments)
	for r.next(); r.tok != token.EOF && len(r.errs) == 0; {
		switch r.tok {
		case token.EOL, token.COMMENT:
			r.next()
		case token.LBRACK:
			r.header()
		case token.IDENT:
			r.variable()
		default:
			r.recordError("neither a section, a variable nor a comment")
		}
	}
	if len(r.errs) > 0 {
		return nil, r.errs[0]
	}
	return r.file, nil
}

func (r *reader) next() {
	var pos token.Pos
	pos, r.tok, r.lit = r.scan.Scan()
	r.at = r.pos.Offset(pos)
}

func (r *reader) recordError(message string) {
	line := 1 + bytes.Count(r.data[:r.at], []byte("\n"))
	r.errs = append(r.errs, fmt.Errorf("line %d: %s", line, message))
}

// header reads [section] or [section "name"].
func (r *reader) header() {
	b := &block{start: r.lineStart()}
	r.next()
	if b.section = r.lit; r.tok != token.IDENT {
		r.recordError("a section's name was expected after the bracket")
		return
	}
	if r.next(); r.tok == token.STRING {
		sub, err := unquote(r.lit)
		if err != nil || sub == "" {
			r.recordError("the section's second name is empty or badly quoted")
			return
		}
		b.sub = sub
		r.next()
	}
	if r.tok != token.RBRACK {
		r.recordError("a section's closing bracket was expected")
		return
	}
	if r.next(); r.endsLine() {
		b.end = r.lineEnd()
		r.blocks = append(r.blocks, b)
	}
}

// variable reads "name = value" or a name alone.
func (r *reader) variable() {
	if len(r.blocks) == 0 {
		r.recordError("a variable stands before the first section")
		return
	}
	e := &entry{key: r.lit, from: r.lineStart()}
	r.next()
	e.start, e.end = r.at, r.at
	if r.tok == token.ASSIGN {
		if r.next(); r.tok != token.STRING {
			r.recordError("a value was expected")
			return
		}
		lit := r.lit
		e.start = r.at
		r.next()
		if len(r.errs) > 0 {
			return
		}
		e.end = e.start + len(bytes.TrimRight(r.data[e.start:r.at], " \t\r"))
		value, err := unquote(lit)
		if err != nil {
			r.recordError(err.Error())
			return
		}
		e.value = value
	}
	if r.endsLine() {
		e.to = r.lineEnd()
		b := r.blocks[len(r.blocks)-1]
		b.entries, b.end = append(b.entries, e), e.to
	}
}

// endsLine reports whether the line has nothing more to say.
func (r *reader) endsLine() bool {
	if len(r.errs) == 0 && r.tok != token.EOL && r.tok != token.EOF && r.tok != token.COMMENT {
		r.recordError("something follows on the line")
	}
	return len(r.errs) == 0
}

func (r *reader) lineStart() int { return 1 + bytes.LastIndexByte(r.data[:r.at], '\n') }

func (r *reader) lineEnd() int {
	if i := bytes.IndexByte(r.data[r.at:], '\n'); i >= 0 {
		return r.at + i + 1
	}
	return len(r.data)
}

var escapes = map[rune]rune{'\\': '\\', '"': '"', 'n': '\n', 't': '\t'}

// unquote is the value that a literal means: quotes may stand anywhere in it, and a backslash before a line break joins
// lines.
func unquote(literal string) (string, error) {
	var out strings.Builder
	quoted, escaped := false, false
	for _, c := range literal {
		switch {
		case escaped:
			escaped = false
			if meant, ok := escapes[c]; ok {
				out.WriteRune(meant)
			} else if quoted || c != '\n' {
				return "", errors.New("a backslash stands before a character that it cannot stand before")
			}
		case c == '\\':
			escaped = true
		case c == '"':
			quoted = !quoted
		default:
			out.WriteRune(c)
		}
	}
	if quoted || escaped {
		return "", errors.New("a quote is not closed")
	}
	return out.String(), nil
}
