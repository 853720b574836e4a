# Makes the catalog, the project demo, networks, flavors and images, as far as they are missing (openstacksdk 0.101).
import os, sys, time, io, datetime, json, warnings
warnings.simplefilter('ignore')
import openstack
E = os.environ; BASE = E['BASE']; IP = '127.0.0.1'
t0 = time.time()
def say(m): print('   seed %5.1fs %s' % (time.time()-t0, m), flush=True)
c = openstack.connect(cloud='ostack')
def identity():
    idn = c.identity
    urls = {
     ('placement', 'placement'): 'http://%s:%s' % (IP, E['P_PLACEMENT']),
     ('nova', 'compute'): 'http://%s:%s/v2.1' % (IP, E['P_NOVA']),
     ('neutron', 'network'): 'http://%s:%s' % (IP, E['P_NEUTRON']),
     ('glance', 'image'): 'http://%s:%s' % (IP, E['P_GLANCE']),
     ('octavia', 'load-balancer'): 'http://%s:%s' % (IP, E['P_OCTAVIA']),
    }
    svcs = {s.name: s for s in idn.services()}
    eps = {(e.service_id, e.interface): e for e in idn.endpoints()}
    for (name, typ), url in urls.items():
        s = svcs.get(name) or idn.create_service(name=name, type=typ)
        for i in ('public', 'internal', 'admin'):
            e = eps.get((s.id, i))
            if e is None: idn.create_endpoint(service_id=s.id, interface=i, url=url, region_id='RegionOne')
            elif e.url != url: idn.update_endpoint(e, url=url)
    proj = idn.find_project('demo') or idn.create_project(name='demo', domain_id='default')
    user = idn.find_user('demo') or idn.create_user(name='demo', domain_id='default', password='secret', default_project_id=proj.id)
    adm = idn.find_project('admin'); admu = idn.find_user('admin')
    for r in ('member', 'load-balancer_member'):
        role = idn.find_role(r) or idn.create_role(name=r)
        idn.assign_project_role_to_user(proj, user, role)
    role = idn.find_role('load-balancer_admin') or idn.create_role(name='load-balancer_admin')
    idn.assign_project_role_to_user(adm, admu, role)
    say('identity')

if sys.argv[1] == 'identity':
    identity(); sys.exit(0)
proj = c.identity.find_project('demo')

c = openstack.connect(cloud='ostack')          # fresh catalog
net = c.network
def mknet(name, **kw): return net.find_network(name, ignore_missing=True) or net.create_network(name=name, **kw)
def mksub(name, **kw): return net.find_subnet(name, ignore_missing=True) or net.create_subnet(name=name, ip_version=4, **kw)
ext = mknet('public', **{'router:external': True, 'provider:network_type': 'flat', 'provider:physical_network': 'public'})
exts = mksub('public-subnet', network_id=ext.id, cidr='203.0.113.0/24', gateway_ip='203.0.113.1', enable_dhcp=False)
mg = mknet('lb-mgmt')
mksub('lb-mgmt-subnet', network_id=mg.id, cidr='10.254.0.0/16', gateway_ip=None)
n = mknet('demo-net', project_id=proj.id)
sn = mksub('demo-subnet', network_id=n.id, cidr='10.0.0.0/16', project_id=proj.id)
r = net.find_router('demo-router', ignore_missing=True)
if not r:
    r = net.create_router(name='demo-router', project_id=proj.id, external_gateway_info={'network_id': ext.id})
    net.add_interface_to_router(r, subnet_id=sn.id)
say('networks')

nv = c.compute
for fid, name in (('1', 'm1.tiny'), ('amphora', 'amphora')):
    if not nv.find_flavor(name, ignore_missing=True): nv.create_flavor(id=fid, name=name, ram=64, vcpus=1, disk=1)
def mkimg(name, **kw):
    for i in c.image.images(name=name): return i
    # the SDK's own create_image wants a checksum that needs another service
    i = c.image._create(openstack.image.v2.image.Image, name=name, container_format='bare', disk_format='raw', visibility='public', **kw)
    i.data = b'x'*512
    i.upload(c.image)
    return i
img = mkimg('tiny'); mkimg('amphora', tags=['amphora'])
say('flavors, images')

want = set(E['COMPUTES'].split()); end = time.time() + 120
while True:
    hyp = {h.name for h in nv.hypervisors()}
    up = {s.host for s in nv.services() if s.binary == 'nova-compute' and s.state == 'up'}
    if want <= hyp and want <= up: break
    if time.time() > end: sys.exit('compute hosts not up: want %s hypervisors %s up %s' % (want, hyp, up))
    time.sleep(0.5)
say('compute hosts up: %s' % ' '.join(sorted(want)))
if len(want) > 1:
    have = {a.name for a in nv.aggregates()}
    for h in sorted(want):
        if 'agg-' + h not in have:
            a = nv.create_aggregate(name='agg-' + h, availability_zone='az-' + h)
            nv.add_host_to_aggregate(a, h)
with open(BASE + '/cloud/ids.env', 'w') as f:
    f.write('MGMT_NET=%s\nPROJECT=%s\nEXT_NET=%s\nEXT_SUBNET=%s\nNET=%s\nSUBNET=%s\nROUTER=%s\nIMAGE=%s\nFLAVOR=1\n' % (mg.id, proj.id, ext.id, exts.id, n.id, sn.id, r.id, img.id))
