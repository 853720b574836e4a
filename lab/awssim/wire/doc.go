// Package wire decides how a request in AWS's query protocol is read and how its answer is written: form parameters
// with numbered list members in, XML or an error document out. It knows the two dialects that EC2 and Elastic Load
// Balancing speak, and nothing about what the actions do.
//
// The formats are those of AWS's API references ("Making API requests" of EC2 and of Elastic Load Balancing) and of the
// two Go SDKs' encoders.
package wire
