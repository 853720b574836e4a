// Package transport decides whether a request that a provider makes may go to its cloud, and counts what went. It is
// for authors of providers: a cloud whose SDK takes an http.RoundTripper needs nothing else.
//
//	SDK --> Transport --changes something?--> Gate --open--> metrics --> the cloud
//	                                            \--closed--> refusal, kept for the caller by Watch
//
// A library that makes requests with contexts of its own gets a Binding in front of that. Each of its requests is then
// one of a controller's call.
//
// A cloud-controller-manager that lost its lease may be in the middle of a call of ten requests. The library's guard
// sees the call; only the transport sees the requests.
package transport
