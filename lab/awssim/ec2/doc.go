// Package ec2 decides what one account's EC2 holds in one region and which calls it refuses: instances, one VPC with
// its subnets, route tables and security groups, and volumes, as far as the AWS cloud managers and the EBS CSI driver
// look at them or change them.
//
// Guards follow the EC2 API reference, version 2016-11-15 (the pages of the actions and "Error codes for the Amazon EC2
// API"). Where the reference is silent, the comment at the guard names the evidence. Nothing here is safe for
// concurrent use: the server serialises calls.
package ec2
