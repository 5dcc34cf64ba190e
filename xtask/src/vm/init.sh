#!/bin/sh
# The first process of the guest: brings up two soft-RoCE devices on a pair of virtual interfaces, runs /etc/command
# and tells the host its exit code.
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/tmp
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm; mount -t tmpfs shm /dev/shm
# The first serial line is the kernel's, the second the command's, the third says how it went.
exec </dev/null >/dev/ttyS1 2>&1; stty -F /dev/ttyS1 -opost 2>/dev/null
end() { echo "$1" >/dev/ttyS2; sync; poweroff -f; }
fail() { echo "the guest could not be set up: $*"; end 125; }
echo begun >/dev/ttyS2
for module in $(cat /etc/modules.order); do
    insmod "$module" 2>/tmp/why || grep -q 'File exists\|No such device' /tmp/why || cat /tmp/why
done
ulimit -l unlimited
ip link set lo up
# Both devices are in one network namespace, where the oldest kernels that have them need them. Without these rules
# packets between two addresses of one machine would never come to a device.
ip link add veth0 type veth peer name veth1 || fail veth
for name in all veth0 veth1; do
    echo 0 >/proc/sys/net/ipv4/conf/$name/rp_filter
    echo 1 >/proc/sys/net/ipv4/conf/$name/accept_local
done
ip link set veth0 mtu 4200 up; ip link set veth1 mtu 4200 up
ip addr add 10.0.0.1/32 dev veth0; ip addr add 10.0.0.2/32 dev veth1
ip route add 10.0.0.2 dev veth0 src 10.0.0.1 table 100
ip route add 10.0.0.1 dev veth1 src 10.0.0.2 table 101
ip neigh replace 10.0.0.2 lladdr "$(cat /sys/class/net/veth1/address)" dev veth0 nud permanent
ip neigh replace 10.0.0.1 lladdr "$(cat /sys/class/net/veth0/address)" dev veth1 nud permanent
ip rule add pref 1 iif veth0 lookup local; ip rule add pref 1 iif veth1 lookup local
ip rule add pref 2 oif veth0 to 10.0.0.2 lookup 100; ip rule add pref 2 oif veth1 to 10.0.0.1 lookup 101
ip rule add pref 2 from 10.0.0.1 to 10.0.0.2 lookup 100; ip rule add pref 2 from 10.0.0.2 to 10.0.0.1 lookup 101
ip rule add pref 10 lookup local; ip rule del pref 0
rdma link add rxe0 type rxe netdev veth0 || fail rxe0
rdma link add rxe1 type rxe netdev veth1 || fail rxe1
cd /tmp
/etc/command
end $?
