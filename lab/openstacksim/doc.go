// Package openstacksim decides what a simulated OpenStack answers: Keystone, Nova, Neutron and Octavia on one HTTP
// address, as far as this project's provider uses them. It was written after the answers of OpenStack Zed.
//
//	request --token?--> 401
//	        --fault?--> the fault's answer, with or without the effect
//	        --known?--> effect under one lock --> answer
//	        --unknown-> 501, and marked in the audit log
//
// What it does not know it refuses: an invented empty answer would read as "gone", and managers delete what is gone.
package openstacksim
