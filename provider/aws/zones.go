package aws

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"k8s.io/cloud-provider-aws/pkg/providers/v1/iface"
)

// now is the wall clock.
var now = time.Now

// zones knows the IDs of availability zones, which are the same in every account, unlike their names. They never
// change; new ones come, rarely.
type zones struct {
	ec2 iface.EC2

	asking sync.Mutex // one request for all who wait

	mu    sync.Mutex
	names map[string]string // IDs by name
	asked time.Time
}

// patience is how long EC2 is not asked again for a zone that it did not list: every node in that zone would ask.
const patience = time.Minute

// id is the ID of the zone with a name.
func (z *zones) id(ctx context.Context, name string) (string, error) {
	if id, ok, _ := z.cachedID(name); ok {
		return id, nil
	}
	z.asking.Lock()
	defer z.asking.Unlock()
	id, ok, fresh := z.cachedID(name)
	if !ok && !fresh {
		if err := z.refresh(ctx); err != nil {
			return "", err
		}
		id, ok, _ = z.cachedID(name)
	}
	if !ok {
		return "", fmt.Errorf("finding the ID of availability zone %q: EC2 does not list this zone", name)
	}
	return id, nil
}

// cachedID is what EC2 said of a zone, and whether it said so not long ago.
func (z *zones) cachedID(name string) (id string, ok, fresh bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	id, ok = z.names[name]
	return id, ok, now().Sub(z.asked) < patience
}

// refresh asks EC2 for all zones.
func (z *zones) refresh(ctx context.Context) error {
	list, err := z.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	if err != nil {
		return fmt.Errorf("asking EC2 for its availability zones: %w", err)
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.names == nil {
		z.names = map[string]string{}
	}
	for _, zone := range list {
		z.names[sdk.ToString(zone.ZoneName)] = sdk.ToString(zone.ZoneId)
	}
	z.asked = now()
	return nil
}
