#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs inside the image: installs the packages named as arguments and leaves
# every service but ssh disabled, so that a new host comes up with sshd only.
set -eu

printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod 0755 /usr/sbin/policy-rc.d
# shellcheck source=molecule/lab/gridstead_lab/other_suites.sh
. /mnt/other_suites.sh
apt-get -q -y --no-install-recommends install "$@"
rm -f "$lists/other.list" /etc/apt/preferences.d/other
apt-get -q update # forgets the lists of the other suite
apt-get -q clean
# Every host would make these 90 MB itself, at its first use of apt.
apt-cache -q gencaches
rm /usr/sbin/policy-rc.d

preset=/etc/systemd/system-preset/00-lab.preset
mkdir -p /etc/systemd/system-preset
printf 'enable ssh.service\ndisable *\n' > "$preset"
systemctl preset-all --preset-mode=full
rm "$preset"
systemctl mask console-getty.service getty@.service systemd-firstboot.service
systemctl set-default multi-user.target

cat > /etc/ssh/sshd_config.d/00-lab.conf <<'CONF'
# Many connections at once: Ansible, tests and people.
MaxStartups 200:30:400
MaxSessions 100
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
CONF
rm -f /etc/ssh/ssh_host_*_key /etc/ssh/ssh_host_*_key.pub
# Equal on all hosts otherwise; each host gets its own before its first boot.
: > /etc/machine-id
rm -f /var/lib/dbus/machine-id
# Named by pam_env; without it every login logs a complaint.
printf 'LANG=C.UTF-8\n' > /etc/default/locale
