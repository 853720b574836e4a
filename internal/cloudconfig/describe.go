package cloudconfig

// DescribeAWS is Describe for AWS, as its keys and service overrides.
func DescribeAWS(in []byte) (keys []string, serviceOverrides []string, err error) {
	d, err := Describe("aws", in)
	return d.Keys, d.ServiceOverrides, err
}
