#!/bin/bash
# Runs the control plane of a real OpenStack (Zed) on 127.0.0.1, of Debian 12's packages, until its standard input ends.
# It uses no systemd, writes nothing below /etc, and keeps everything below OSTACK_RUN. The schemas of all databases
# are kept in OSTACK_SNAP, so that a second start takes 20 s. FRESH=1 makes them again.
set -euo pipefail
HERE=$(cd "$(dirname "$0")" && pwd)
BASE=$OSTACK_RUN
SNAP=$OSTACK_SNAP
export OSTACK_RUN
IP=127.0.0.1
P_KEYSTONE=15000 P_PLACEMENT=18778 P_NOVA=18774 P_NEUTRON=19696 P_GLANCE=19292 P_OCTAVIA=19876

P_RABBIT=15672 P_EPMD=14369 P_DIST=15673
COMPUTES=${COMPUTES:-fake1}          # one nova-compute with Nova's FakeDriver per word
ADMIN_PW=secret
export PATH=${OSTACK_PATH:-/usr/sbin:/usr/bin:/sbin:/bin} LC_ALL=C.UTF-8 PYTHONWARNINGS=ignore
unset PYTHONPATH PYTHONHOME VIRTUAL_ENV $(compgen -v OS_ || true) http_proxy https_proxy HTTP_PROXY HTTPS_PROXY
T0=$(date +%s.%N)
say(){ printf '[%6.1fs] %s\n' "$(echo "$(date +%s.%N) $T0" | awk '{print $1-$2}')" "$*"; }

# ---------------------------------------------------------------- what it needs
[ "$(id -u)" = 0 ] || { echo "this needs root: apt-get installs the packages, and the services run as root"; exit 3; }
command -v apt-get >/dev/null || { echo "there is no apt-get: this needs the packages of Debian 12 (bookworm)"; exit 3; }
PKGS="python3-keystone python3-placement python3-nova python3-neutron python3-octavia python3-glance
 rabbitmq-server mariadb-server-core mariadb-client-core uwsgi-plugin-python3 python3-pymysql python3-openstacksdk
 zstd curl openssl"
MISSING=""
for p in $PKGS; do dpkg -s $p >/dev/null 2>&1 || MISSING="$MISSING $p"; done
if [ -n "$MISSING" ]; then
  for p in $MISSING; do
    apt-cache show $p >/dev/null 2>&1 || { echo "apt has no package $p: use Debian 12 (bookworm), and run apt-get update"; exit 3; }
  done
  [ -x /usr/sbin/policy-rc.d ] || echo "note: no policy-rc.d, so apt may start a rabbitmq-server of its own"
  say "apt-get install$MISSING"
  DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $MISSING >"$HERE/apt.log" 2>&1 </dev/null ||
    { echo "apt-get install failed:"; tail -15 "$HERE/apt.log"; exit 3; }
  say "apt-get install is done"
fi

# ---------------------------------------------------------------- one at a time, and its end
mkdir -p "$BASE"
exec 9>"$BASE.lock"
flock -n 9 || { echo "another OpenStack runs in $BASE"; exit 1; }
# stop ends every service by the process group that was recorded for it.
stop(){
  set +e; trap - EXIT; trap '' TERM INT
  [ -n "${WATCH:-}" ] && kill $WATCH 2>/dev/null
  local n f i left
  for n in $(ls -t "$BASE/pids" 2>/dev/null | grep -vE '^(mysql|rabbit|epmd)$'; echo rabbit; echo epmd; echo mysql); do
    f=$BASE/pids/$n; [ -f "$f" ] && kill -TERM -- -$(cat "$f") 2>/dev/null || true
  done
  for i in $(seq 50); do
    left=0
    for f in "$BASE"/pids/*; do [ -f "$f" ] && kill -0 -- -$(cat "$f") 2>/dev/null && left=1; done
    [ $left = 0 ] && break; sleep 0.2
  done
  for f in "$BASE"/pids/*; do [ -f "$f" ] || continue; kill -KILL -- -$(cat "$f") 2>/dev/null || true; rm -f "$f"; done
}
# What a run that was killed has left: only processes that have this directory in their environment.
for f in "$BASE"/pids/*; do
  [ -f "$f" ] || continue
  p=$(cat "$f"); grep -qzx "OSTACK_RUN=$BASE" /proc/$p/environ 2>/dev/null && kill -KILL -- -$p 2>/dev/null || true
done
find "$BASE" -mindepth 1 -delete; mkdir -p $BASE/{pids,start,log,etc,mysql,rabbit,state,images,lock}
chmod 700 $BASE $BASE/rabbit
trap stop EXIT
trap 'exit 1' TERM INT
# Standard input ends when the program that started this has ended, however it has.
exec 3<&0 </dev/null
{ cat <&3 >/dev/null; kill -TERM $$; } 9>&- &
WATCH=$!
exec 3<&-

# ---------------------------------------------------------------- helpers
cat > $BASE/run.py <<'PY'
# run.py MODULE[:func] args...   -> call a console entry point with Debian's python
import sys, importlib
mod, _, fn = sys.argv[1].partition(':')
sys.argv = sys.argv[1:]
if mod.startswith('nova.') : import nova.monkey_patch            # must come first
m = importlib.import_module(mod)
sys.exit(getattr(m, fn or 'main')())
PY
PY="/usr/bin/python3 $BASE/run.py"
start(){ # start NAME cmd...
  local n=$1; shift
  { echo "#!/bin/bash"; echo "export OSTACK_RUN=$BASE PATH=$PATH LC_ALL=C.UTF-8 PYTHONWARNINGS=ignore HOME=$BASE"
    echo 'cd "$OSTACK_RUN"' # who starts it again may run in a directory that is gone
    printf 'exec setsid'; printf ' %q' "$@"; echo " >>$BASE/log/$n.log 2>&1 </dev/null"; } >$BASE/start/$n
  chmod 700 $BASE/start/$n
  $BASE/start/$n 9>&- &
  echo $! > $BASE/pids/$n
}
alive(){ kill -0 $(cat $BASE/pids/$1) 2>/dev/null || { echo "$1 died, see $BASE/log/$1.log"; tail -20 $BASE/log/$1.log; exit 1; }; }
waitport(){ local n=$1 p=$2; for i in $(seq 600); do (exec 3<>/dev/tcp/$IP/$p) 2>/dev/null && return 0; alive $n; sleep 0.2; done; echo "$n: port $p never opened"; exit 1; }
waithttp(){ local n=$1 p=$2 c; for i in $(seq 300); do c=$(curl -s -m 3 -o /dev/null -w '%{http_code}' http://$IP:$p/ || true)
    case $c in 2*|3*|4*) return 0;; esac; alive $n; sleep 0.3; done; echo "$n: no HTTP answer on $p (last $c)"; tail -20 $BASE/log/$n.log; exit 1; }
waitlog(){ for i in $(seq 300); do grep -q "$2" $BASE/log/$1.log && return 0; alive $1; sleep 0.2; done; echo "$1 not ready"; exit 1; }
uw(){ # uw NAME PORT PROCS WSGI_EXPR_FILE  env...
  local n=$1 port=$2 procs=$3 file=$4; shift 4
  start $n env "$@" uwsgi --plugin python3 --http-socket $IP:$port --wsgi-file $file --master \
     --processes $procs --lazy-apps --need-app --buffer-size 65535 --die-on-term --enable-threads \
     --add-header "Connection: close" --post-buffering 8192 --disable-logging
}
db(){ echo "mysql+pymysql://root@localhost/$1?unix_socket=$BASE/mysql.sock&charset=utf8"; }
DBOPTS="max_pool_size = 5
max_overflow = 20
connection_recycle_time = 3600"
authtoken(){ cat <<X
[keystone_authtoken]
www_authenticate_uri = http://$IP:$P_KEYSTONE
auth_url = http://$IP:$P_KEYSTONE
auth_type = password
username = admin
password = $ADMIN_PW
project_name = admin
user_domain_name = Default
project_domain_name = Default
service_token_roles_required = false
interface = public
# a token that was revoked is refused at once: without this, after five minutes
token_cache_time = 1
X
}
svcauth(){ # section
cat <<X
[$1]
auth_url = http://$IP:$P_KEYSTONE
auth_type = password
username = admin
password = $ADMIN_PW
project_name = admin
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
valid_interfaces = public
X
}
RPC="transport_url = rabbit://guest:guest@$IP:$P_RABBIT//
rpc_response_timeout = 60"
NOHB="[oslo_messaging_rabbit]
heartbeat_in_pthread = false
rabbit_retry_interval = 1
rpc_conn_pool_size = 10
[oslo_messaging_notifications]
driver = noop
[oslo_concurrency]
lock_path = $BASE/lock"
E=$BASE/etc

# ---------------------------------------------------------------- configs
mkdir -p $E/fernet $E/cred $E/certs; chmod 700 $E/fernet $E/cred
cat > $E/keystone.conf <<X
[DEFAULT]
log_file = 
use_stderr = true
[database]
connection = $(db keystone)
$DBOPTS
[fernet_tokens]
key_repository = $E/fernet
[fernet_receipts]
key_repository = $E/fernet
[credential]
key_repository = $E/cred
# each process of Keystone has a cache of its own, and would still take a token that another one has revoked
[token]
provider = fernet
expiration = 86400
caching = false
[revoke]
caching = false
[identity]
password_hash_rounds = 4
[cache]
enabled = true
backend = dogpile.cache.memory
X
cat > $E/placement.conf <<X
[api]
auth_strategy = keystone
[placement_database]
connection = $(db placement)
$DBOPTS
$(authtoken)
X
cat > $E/glance-api.conf <<X
[DEFAULT]
bind_host = $IP
bind_port = $P_GLANCE
workers = 0
enabled_backends = fs:file
worker_self_reference_url = http://$IP:$P_GLANCE
[database]
connection = $(db glance)
$DBOPTS
[glance_store]
default_backend = fs
[fs]
filesystem_store_datadir = $BASE/images
[os_glance_staging_store]
filesystem_store_datadir = $BASE/state/glance-staging
[os_glance_tasks_store]
filesystem_store_datadir = $BASE/state/glance-tasks
[paste_deploy]
flavor = keystone
config_file = $E/glance-paste.ini
[oslo_concurrency]
lock_path = $BASE/lock
$(authtoken)
X
cat > $E/glance-paste.ini <<'X'
[pipeline:glance-api-keystone]
pipeline = versionnegotiation authtoken context rootapp
[composite:rootapp]
paste.composite_factory = glance.api:root_app_factory
/: apiversions
/v2: apiv2app
[app:apiversions]
paste.app_factory = glance.api.versions:create_resource
[app:apiv2app]
paste.app_factory = glance.api.v2.router:API.factory
[filter:versionnegotiation]
paste.filter_factory = glance.api.middleware.version_negotiation:VersionNegotiationFilter.factory
[filter:context]
paste.filter_factory = glance.api.middleware.context:ContextMiddleware.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
delay_auth_decision = true
X
cat > $E/nova-paste.ini <<'X'
[composite:osapi_compute]
use = call:nova.api.openstack.urlmap:urlmap_factory
/: oscomputeversions
/v2.1: oscomputeversion_v2
/v2.1/+: openstack_compute_api_v21
[composite:openstack_compute_api_v21]
use = call:nova.api.auth:pipeline_factory_v21
keystone = compute_req_id faultwrap request_log sizelimit authtoken keystonecontext osapi_compute_app_v21
[filter:request_log]
paste.filter_factory = nova.api.openstack.requestlog:RequestLog.factory
[filter:compute_req_id]
paste.filter_factory = nova.api.compute_req_id:ComputeReqIdMiddleware.factory
[filter:faultwrap]
paste.filter_factory = nova.api.openstack:FaultWrapper.factory
[filter:sizelimit]
paste.filter_factory = oslo_middleware:RequestBodySizeLimiter.factory
[app:osapi_compute_app_v21]
paste.app_factory = nova.api.openstack.compute:APIRouterV21.factory
[pipeline:oscomputeversions]
pipeline = faultwrap request_log oscomputeversionapp
[pipeline:oscomputeversion_v2]
pipeline = compute_req_id faultwrap request_log oscomputeversionapp_v2
[app:oscomputeversionapp]
paste.app_factory = nova.api.openstack.compute.versions:Versions.factory
[app:oscomputeversionapp_v2]
paste.app_factory = nova.api.openstack.compute.versions:VersionsV2.factory
[filter:keystonecontext]
paste.filter_factory = nova.api.auth:NovaKeystoneContext.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
X
nova_conf(){ cat <<X
[DEFAULT]
host = $1
my_ip = $IP
state_path = $BASE/state/nova-$1
compute_driver = fake.FakeDriver
$RPC
osapi_compute_listen = $IP
osapi_compute_listen_port = $P_NOVA
osapi_compute_workers = 1
enabled_apis = osapi_compute
use_stderr = true
periodic_fuzzy_delay = 0
sync_power_state_interval = -1
heal_instance_info_cache_interval = 0
resize_confirm_window = 0
service_down_time = 86400
report_interval = 60
allow_resize_to_same_host = true
ram_allocation_ratio = 100
[api]
auth_strategy = keystone
[wsgi]
api_paste_config = $E/nova-paste.ini
[database]
connection = $(db nova)
$DBOPTS
$( [ $1 = api ] && printf '[api_database]\nconnection = %s\n%s\n' "$(db nova_api)" "$DBOPTS" )
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 5
[cache]
enabled = false
[vnc]
enabled = false
[quota]
driver = nova.quota.NoopQuotaDriver
[glance]
api_servers = http://$IP:$P_GLANCE
[upgrade_levels]
compute = auto
$NOHB
$(authtoken)
$(svcauth placement)
$(svcauth neutron)
X
}
nova_conf api > $E/nova.conf
for c in $COMPUTES; do nova_conf $c > $E/nova-$c.conf; mkdir -p $BASE/state/nova-$c; done
mkdir -p $BASE/state/nova-api $BASE/state/glance-staging $BASE/state/glance-tasks

cat > $E/neutron.conf <<X
[DEFAULT]
host = neutron
bind_host = $IP
bind_port = $P_NEUTRON
state_path = $BASE/state/neutron
core_plugin = ml2
service_plugins = router,trunk
auth_strategy = keystone
api_paste_config = $E/neutron-paste.ini
api_workers = 0
rpc_workers = 0
rpc_state_report_workers = 0
$RPC
use_stderr = true
dhcp_agent_notification = false
notify_nova_on_port_status_changes = true
notify_nova_on_port_data_changes = true
send_events_interval = 0
router_auto_schedule = false
network_auto_schedule = false
allow_overlapping_ips = true
global_physnet_mtu = 1500
vlan_transparent = false
# extra routes per router (CCM route controller): one per node
max_routes = 300
[database]
connection = $(db neutron)
$DBOPTS
[quotas]
quota_driver = neutron.db.quota.driver_null.DbQuotaDriverNull
[ml2]
type_drivers = local,flat
tenant_network_types = local
mechanism_drivers = openvswitch
extension_drivers = port_security
[ml2_type_flat]
flat_networks = *
[securitygroup]
enable_security_group = true
$NOHB
$(authtoken)
$(svcauth nova)
X
cat > $E/neutron-paste.ini <<'X'
[composite:neutron]
use = egg:Paste#urlmap
/: neutronversions_composite
/v2.0: neutronapi_v2_0
[composite:neutronapi_v2_0]
use = call:neutron.auth:pipeline_factory
keystone = request_id catch_errors authtoken keystonecontext extensions neutronapiapp_v2_0
[composite:neutronversions_composite]
use = call:neutron.auth:pipeline_factory
keystone = neutronversions
[filter:request_id]
paste.filter_factory = oslo_middleware:RequestId.factory
[filter:catch_errors]
paste.filter_factory = oslo_middleware:CatchErrors.factory
[filter:keystonecontext]
paste.filter_factory = neutron.auth:NeutronKeystoneContext.factory
[filter:authtoken]
paste.filter_factory = keystonemiddleware.auth_token:filter_factory
[filter:extensions]
paste.filter_factory = neutron.api.extensions:plugin_aware_extension_middleware_factory
[app:neutronversions]
paste.app_factory = neutron.pecan_wsgi.app:versions_factory
[app:neutronapiapp_v2_0]
paste.app_factory = neutron.api.v2.router:APIRouter.factory
X
# Amphorae are servers of Nova. Only haproxy in them is none: ports, addresses and security groups are Neutron's.
octavia_conf(){ # compute image network mgmt-net
cat <<X
[DEFAULT]
host = octavia
$RPC
use_stderr = true
[api_settings]
bind_host = $IP
bind_port = $P_OCTAVIA
auth_strategy = keystone
api_base_uri = http://$IP:$P_OCTAVIA
enabled_provider_drivers = amphora: Amphora provider with no-op compute and haproxy
default_provider_driver = amphora
[database]
connection = $(db octavia)
$DBOPTS
[controller_worker]
workers = 1
amphora_driver = amphora_noop_driver
compute_driver = $1
image_driver = $2
network_driver = $3
volume_driver = volume_noop_driver
amp_image_tag = amphora
amp_flavor_id = amphora
amp_boot_network_list = $4
amp_active_retries = 100
amp_active_wait_sec = 1
loadbalancer_topology = SINGLE
client_ca = $E/certs/ca.pem
[certificates]
cert_manager = local_cert_manager
cert_generator = local_cert_generator
ca_certificate = $E/certs/ca.pem
ca_private_key = $E/certs/ca.key
ca_private_key_passphrase = insecure-ca-passphrase
server_certs_key_passphrase = insecure-key-do-not-use-this-key
[oslo_messaging]
topic = octavia_prov
[house_keeping]
load_balancer_expiry_age = 3600
[networking]
port_detach_timeout = 5
[health_manager]
heartbeat_key = insecure
[quotas]
default_load_balancer_quota = -1
default_listener_quota = -1
default_member_quota = -1
default_pool_quota = -1
default_health_monitor_quota = -1
$NOHB
$(authtoken)
$(svcauth service_auth)
[neutron]
region_name = RegionOne
[nova]
region_name = RegionOne
[glance]
region_name = RegionOne
X
}
octavia_confs(){ # mgmt net id
  octavia_conf compute_nova_driver image_glance_driver allowed_address_pairs_driver $1 > $E/octavia.conf
  cp $E/octavia.conf $E/octavia-worker.conf
}
octavia_confs 00000000-0000-4000-8000-000000000001
[ -f $E/certs/ca.pem ] || openssl req -x509 -newkey rsa:2048 -passout pass:insecure-ca-passphrase -days 3650 -subj /CN=ostack -keyout $E/certs/ca.key -out $E/certs/ca.pem 2>/dev/null

# wsgi entry files
cat > $E/keystone.wsgi <<'X'
from keystone.server.wsgi import initialize_public_application
application = initialize_public_application()
X
cat > $E/placement.wsgi <<'X'
from placement.wsgi import init_application
application = init_application()
X
cat > $E/octavia.wsgi <<X
from octavia.api.app import setup_app
application = setup_app(argv=['octavia', '--config-file', '$E/octavia.conf'])
X

mkdir -p $BASE/cloud
cat > $BASE/cloud/clouds.yaml <<X
clouds:
  ostack:
    auth:
      auth_url: http://$IP:$P_KEYSTONE/v3
      username: admin
      password: $ADMIN_PW
      project_name: admin
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
    interface: public
    identity_api_version: 3
  demo:
    auth:
      auth_url: http://$IP:$P_KEYSTONE/v3
      username: demo
      password: $ADMIN_PW
      project_name: demo
      user_domain_name: Default
      project_domain_name: Default
    region_name: RegionOne
    interface: public
    identity_api_version: 3
X
# ---------------------------------------------------------------- MariaDB + RabbitMQ
FP="$(cat $HERE/cloud.sh $HERE/seed.py | sha256sum | cut -c1-16) $BASE $COMPUTES $P_KEYSTONE $P_PLACEMENT $P_NOVA $P_NEUTRON $P_GLANCE $P_OCTAVIA $P_RABBIT $(dpkg-query -W -f '${Version} ' python3-nova python3-neutron python3-octavia python3-keystone)"
WARM=0; [ -z "${FRESH:-}" ] && [ -f "$SNAP" ] && [ "$(tar --zstd -xOf $SNAP cloud/fingerprint 2>/dev/null)" = "$FP" ] && WARM=1
if [ $WARM = 1 ]; then tar -C $BASE --zstd -xf $SNAP; say "database snapshot restored"; fi
start epmd /usr/bin/epmd -port $P_EPMD -address $IP
start rabbit env HOME=$BASE/rabbit RABBITMQ_NODENAME=ostack@localhost \
  RABBITMQ_MNESIA_BASE=$BASE/rabbit RABBITMQ_LOG_BASE=$BASE/log RABBITMQ_LOGS=- \
  RABBITMQ_NODE_IP_ADDRESS=$IP RABBITMQ_NODE_PORT=$P_RABBIT RABBITMQ_DIST_PORT=$P_DIST \
  ERL_EPMD_ADDRESS=$IP ERL_EPMD_PORT=$P_EPMD RABBITMQ_ENABLED_PLUGINS_FILE=$BASE/rabbit/enabled_plugins \
  RABBITMQ_CONF_ENV_FILE=$BASE/rabbit/none RABBITMQ_CONFIG_FILE=$BASE/rabbit/none RABBITMQ_PID_FILE=$BASE/rabbit/pid \
  RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS="-kernel inet_dist_use_interface {127,0,0,1} +S 2:1 +sbwt none +sbwtdcpu none +sbwtdio none" \
  /usr/lib/rabbitmq/bin/rabbitmq-server
if [ $WARM = 0 ]; then
  /usr/bin/mariadb-install-db --no-defaults --user=root --datadir=$BASE/mysql --skip-test-db --auth-root-authentication-method=normal \
     --innodb-log-file-size=32M >$BASE/log/install-db.log 2>&1
fi
start mysql /usr/sbin/mariadbd --no-defaults --user=root --datadir=$BASE/mysql --socket=$BASE/mysql.sock --skip-networking \
  --pid-file=$BASE/mysql.pid --innodb-flush-log-at-trx-commit=0 --innodb-flush-method=nosync --innodb-doublewrite=0 \
  --innodb-buffer-pool-size=96M --innodb-log-file-size=32M --performance-schema=OFF --max-connections=400 --skip-log-bin \
  --character-set-server=utf8mb3 --skip-name-resolve --tmpdir=$BASE/state
for i in $(seq 150); do [ -S $BASE/mysql.sock ] && mariadb --no-defaults -uroot -S $BASE/mysql.sock -e 'select 1' >/dev/null 2>&1 && break; sleep 0.2; done
say "mariadb up"

start_keystone(){ uw keystone $P_KEYSTONE ${KEYSTONE_PROCS:-2} $E/keystone.wsgi OS_KEYSTONE_CONFIG_FILES=$E/keystone.conf OS_KEYSTONE_CONFIG_DIR=$E; }
seed(){ OS_CLIENT_CONFIG_FILE=$BASE/cloud/clouds.yaml BASE=$BASE P_PLACEMENT=$P_PLACEMENT P_NOVA=$P_NOVA P_NEUTRON=$P_NEUTRON P_GLANCE=$P_GLANCE P_OCTAVIA=$P_OCTAVIA \
  COMPUTES="$COMPUTES" SOCK=$BASE/mysql.sock P_KEYSTONE=$P_KEYSTONE /usr/bin/python3 $HERE/seed.py $1; }
manage(){ # LABEL cmd...
  local n=$1; shift; "$@" >$BASE/log/sync-$n.log 2>&1 || { echo "$n failed:"; tail -15 $BASE/log/sync-$n.log; return 1; }; }
if [ $WARM = 0 ]; then
  for d in keystone placement nova nova_api nova_cell0 neutron glance octavia; do echo "CREATE DATABASE $d CHARACTER SET utf8mb3;"; done | mariadb --no-defaults -uroot -S $BASE/mysql.sock
  ( manage keystone $PY keystone.cmd.manage --config-file $E/keystone.conf db_sync
    manage fernet $PY keystone.cmd.manage --config-file $E/keystone.conf fernet_setup --keystone-user root --keystone-group root
    manage cred $PY keystone.cmd.manage --config-file $E/keystone.conf credential_setup --keystone-user root --keystone-group root
    manage boot $PY keystone.cmd.manage --config-file $E/keystone.conf bootstrap --bootstrap-password $ADMIN_PW --bootstrap-region-id RegionOne \
       --bootstrap-public-url http://$IP:$P_KEYSTONE/v3 --bootstrap-internal-url http://$IP:$P_KEYSTONE/v3 --bootstrap-admin-url http://$IP:$P_KEYSTONE/v3
  ) & K=$!
  ( manage placement $PY placement.cmd.manage --config-file $E/placement.conf db sync
    manage glance $PY glance.cmd.manage --config-file $E/glance-api.conf db_sync
    manage octavia $PY octavia.db.migration.cli --config-file $E/octavia.conf upgrade head
  ) & A=$!
  ( manage nova-api $PY nova.cmd.manage --config-file $E/nova.conf api_db sync
    manage cell0 $PY nova.cmd.manage --config-file $E/nova.conf cell_v2 map_cell0 --database_connection "$(db nova_cell0)"
    manage cell1 $PY nova.cmd.manage --config-file $E/nova.conf cell_v2 create_cell --name cell1 --database_connection "$(db nova)" --transport-url "rabbit://guest:guest@$IP:$P_RABBIT//"
    manage nova $PY nova.cmd.manage --config-file $E/nova.conf db sync
  ) & B=$!
  ( manage neutron $PY neutron.db.migration.cli --config-file $E/neutron.conf upgrade head ) & C=$!
  wait $K; start_keystone; waithttp keystone $P_KEYSTONE; seed identity; say "catalog created"
  wait $A; wait $B; wait $C
  say "schemas migrated"
fi

# ---------------------------------------------------------------- services
[ $WARM = 1 ] && start_keystone
start neutron $PY neutron.cmd.eventlet.server --config-file $E/neutron.conf
uw octavia-api $P_OCTAVIA 1 $E/octavia.wsgi
uw placement $P_PLACEMENT 1 $E/placement.wsgi OS_PLACEMENT_CONFIG_DIR=$E
waithttp keystone $P_KEYSTONE; waitport rabbit $P_RABBIT; say "rabbitmq up"
start nova-conductor $PY nova.cmd.conductor --config-file $E/nova.conf
start nova-api $PY nova.cmd.api_os_compute --config-file $E/nova.conf
start glance $PY glance.cmd.api --config-file $E/glance-api.conf
waithttp placement $P_PLACEMENT
start nova-scheduler $PY nova.cmd.scheduler --config-file $E/nova.conf
[ $WARM = 1 ] && { . $BASE/cloud/ids.env; octavia_confs $MGMT_NET; start octavia-worker $PY octavia.cmd.octavia_worker --config-file $E/octavia-worker.conf; }
start agent /usr/bin/python3 $HERE/agent.py $E/neutron.conf $BASE/mysql.sock "$COMPUTES"
waitlog nova-conductor "Starting conductor node"      # nova-compute pings it and backs off a full 10 s if it is not there yet
for c in $COMPUTES; do start nova-compute-$c $PY nova.cmd.compute --config-file $E/nova-$c.conf; done
waithttp glance $P_GLANCE; waithttp neutron $P_NEUTRON; waithttp octavia-api $P_OCTAVIA; waithttp nova-api $P_NOVA
say "all API ports open"
# Also where all is there: Neutron 21 sets its models up in its first requests, and fails when two come at once.
seed cloud
. $BASE/cloud/ids.env
say "seeded"
octavia_confs $MGMT_NET
if [ $WARM = 0 ]; then
  # Crash-consistent copy: let the 1 s redo flush happen, freeze mariadbd, tar the data directory, thaw it.
  sleep 1.5; echo "$FP" > $BASE/cloud/fingerprint
  kill -STOP $(cat $BASE/pids/mysql)
  tar -C $BASE --zstd -cf $SNAP.tmp cloud/fingerprint cloud/ids.env mysql images etc/fernet etc/cred etc/certs || true
  kill -CONT $(cat $BASE/pids/mysql); mv $SNAP.tmp $SNAP; say "snapshot $(du -h $SNAP | cut -f1)"
fi
[ $WARM = 0 ] && start octavia-worker $PY octavia.cmd.octavia_worker --config-file $E/octavia-worker.conf
for c in $COMPUTES; do waitlog nova-compute-$c "Starting compute node"; done
waitlog nova-conductor "Starting conductor node"; waitlog nova-scheduler "Starting scheduler node"; waitlog octavia-worker "Starting V2 consumer"; waitlog agent "heartbeat sent"
say "ready"
wait $WATCH
