package wire

import (
	"bytes"
	"encoding/xml"
	"strconv"
	"time"
)

// Node is an XML element: text or children. A Node without a name is left out, which is how an absent value is written.
type Node struct {
	Name     string
	Text     string
	Children []Node
}

// El is an element with children.
func El(name string, children ...Node) Node { return Node{Name: name, Children: children} }

// Text is an element with text; an empty text is still an element.
func Text(name, text string) Node { return Node{Name: name, Text: text} }

// Opt is Text, or nothing when the text is empty.
func Opt(name, text string) Node {
	if text == "" {
		return Node{}
	}
	return Text(name, text)
}

// Int is an element with a whole number.
func Int(name string, n int) Node { return Text(name, strconv.Itoa(n)) }

// Bool is an element with true or false.
func Bool(name string, b bool) Node { return Text(name, strconv.FormatBool(b)) }

// Time is an element with a time in the form that the APIs use.
func Time(name string, t time.Time) Node {
	return Text(name, t.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// Strings is a list of texts: <name><item>a</item><item>b</item></name>.
func Strings(name, item string, values []string) Node {
	n := Node{Name: name}
	for _, v := range values {
		n.Children = append(n.Children, Text(item, v))
	}
	return n
}

// Dialect is one service's way to write answers.
type Dialect struct {
	// Namespace is the XML namespace of answers.
	Namespace string
	// Wrapped is Elastic Load Balancing's form (a Result element inside the Response); EC2's has none.
	Wrapped bool
}

// Answer writes a success.
func (d Dialect) Answer(action, requestID string, children []Node) []byte {
	if d.Wrapped {
		return d.document(
			action+"Response",
			El(action+"Result", children...),
			El("ResponseMetadata", Text("RequestId", requestID)),
		)
	}
	return d.document(action+"Response", append([]Node{Text("requestId", requestID)}, children...)...)
}

// Refusal writes an error.
func (d Dialect) Refusal(e *Error, requestID string) []byte {
	if d.Wrapped {
		fault := "Sender"
		if e.Status >= 500 {
			fault = "Receiver"
		}
		return d.document("ErrorResponse",
			El("Error", Text("Type", fault), Text("Code", e.Code), Text("Message", e.Message)), Text("RequestId", requestID))
	}
	return Dialect{}.document(
		"Response",
		El("Errors", El("Error", Text("Code", e.Code), Text("Message", e.Message))),
		Text("RequestID", requestID),
	)
}

func (d Dialect) document(root string, children ...Node) []byte {
	b := bytes.NewBufferString(xml.Header)
	b.WriteString("<" + root)
	if d.Namespace != "" {
		b.WriteString(` xmlns="` + d.Namespace + `"`)
	}
	b.WriteString(">")
	for _, c := range children {
		c.write(b)
	}
	b.WriteString("</" + root + ">\n")
	return b.Bytes()
}

func (n Node) write(b *bytes.Buffer) {
	if n.Name == "" {
		return
	}
	b.WriteString("<" + n.Name + ">")
	// EscapeText fails only when its writer does, and a bytes.Buffer does not.
	_ = xml.EscapeText(b, []byte(n.Text))
	for _, c := range n.Children {
		c.write(b)
	}
	b.WriteString("</" + n.Name + ">")
}
