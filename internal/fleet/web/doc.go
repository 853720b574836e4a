// Package web decides who may see and do what on the operator's page, and serves it. It lists the clusters, each with
// its phase, owners, progress, findings and timeline, live. If that is switched on, it offers a few actions.
//
//	token of the seed ──TokenReview──> who ──SubjectAccessReview──> may list all / get this one / update this one
//
// The operator's own rights are used to read and to ask these two questions, and for nothing else. What a person
// changes is written with that person's token. So the seed's API server decides and its audit log names the person. A
// token is kept in memory until the session ends; a browser holds a random number. It is never logged, and no answer
// contains it.
//
// An action shows what it is going to do, step by step, before it can be done. The browser sends back the SHA-256 of
// those steps. They are made again and compared before anything is written.
package web
