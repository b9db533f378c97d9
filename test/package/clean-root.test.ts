import { readdirSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { readBlocks, readDocument, repository } from '../helpers/documents.ts';
import { EXECUTABLE } from '../helpers/pets.ts';
import { runProgram } from '../helpers/run-program.ts';
import { isInstalled, testIf } from '../helpers/skip.ts';
import { temporaryDirectory } from '../helpers/temp.ts';

// This test installs the Debian package on a new Debian without Node, which systemd-nspawn starts.

const missing = ['mmdebstrap', 'systemd-nspawn', 'unshare'].filter((name) => !isInstalled(name));
const isRoot = process.getuid?.() === 0;
const test = testIf(
  isRoot && missing.length === 0,
  isRoot ? `not installed: ${missing.join(', ')}` : 'only root can install a Debian',
);

/** The packages for systemd and for pets. They are installed in advance, because the started Debian has no network. */
const PACKAGES = 'systemd,systemd-sysv,dbus,libnss-systemd,libatomic1,libstdc++6';

/** Runs the script as root when Debian has started, and stops Debian afterwards. */
const UNIT = `[Unit]
After=multi-user.target
[Service]
Type=oneshot
Environment=HOME=/root
WorkingDirectory=/root
ExecStart=/bin/sh -eux /root/script
ExecStopPost=/bin/systemctl poweroff
StandardOutput=append:/root/output
StandardError=inherit
`;

/**
 * Two blocks of docs/install.md: install the package; install `pets` as one file. Four blocks of docs/deploy.md: write
 * a script; create a key and start the service; make a backup; restore the backup.
 */
const blocks = ['docs/install.md', 'docs/deploy.md']
  .flatMap((name) => readBlocks(readDocument(name)))
  .filter(({ directive }) => directive === 'debian');

/** Ends at the first command that fails. Debian prints each command before it is run. */
const SCRIPT = `
wait_for() { for i in $(seq 100); do "$@" > /dev/null 2>&1 && return; sleep 0.1; done; "$@"; }
state() { test "$(systemctl is-$1 pets)" = "$2"; }

: a new Debian has no Node, and the installation neither enables nor starts the service
command -v node nodejs npm && exit 1
sh -eu block-0.sh
test -e /usr/share/man/man1/pets.1.gz
state enabled disabled
state active inactive

: systemd finds no problem in the unit, and rates its exposure as OK
systemd-analyze verify --man=no pets.service 2>&1 | grep pets && exit 1
systemd-analyze security --no-pager pets.service | tail -1 | grep 'pets.service: 1\\.[0-9] OK'

: the documented commands create a key as the user of the unit, and start the service
sh -eu block-2.sh
sh -eu block-3.sh > key 2>&1
state enabled enabled
state active active
test "$(stat -c %U:%a /var/lib/private/pets)" = pets:700
test "$(stat -c %U:%a /var/lib/private/pets/store/keys/till-1.json)" = pets:600
test "$(systemctl show --property=User,DynamicUser,ProtectSystem --value pets | tr '\\n' ' ')" = 'pets yes strict '

: the service keeps an animal over a restart, and its log contains no key
export PETS_API_KEY=$(grep '^pets_' key) PETS_BASE_URL=http://127.0.0.1:7387/v1
wait_for pets add Rex --category 1
systemctl restart pets
wait_for pets get 1
journalctl --unit pets | grep pets_ && exit 1

: the documented commands restore a backup, without what was added after it
sh -eu block-4.sh
pets add Bella --category 1
sh -eu block-5.sh
wait_for pets get 1
test "$(pets list | wc -l)" = 1

: an upgrade restarts the service, and a removal stops it and keeps the store
apt-get install --yes --reinstall ./pets_*_amd64.deb
state active active
mkdir -p .local/bin
sh -eu block-1.sh
.local/bin/pets --version
apt-get remove --yes pets
state active inactive
test -d /var/lib/private/pets/store
touch done
`;

test('on a new Debian without Node, the package can be installed, used, upgraded and removed as documented', async () => {
  const root = await temporaryDirectory();
  // Install this machine's release of Debian, or `stable` if it is unknown.
  const release = await readFile('/etc/os-release', 'utf8');
  const [, codename = 'stable'] = /^VERSION_CODENAME=(\S+)$/m.exec(release) ?? [];
  // The hook merges /usr without the package usrmerge, which needs Perl. Installing the two took a quarter of the time.
  const options = ['--variant=apt', '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr'];
  const args = [...options, `--include=${PACKAGES}`, codename, root];
  const installed = await runProgram('mmdebstrap', args, { cwd: tmpdir() });
  expect(installed.code, installed.output).toBe(0);
  // A temporary directory has mode 0700, but the users of Debian must be able to enter its root.
  await chmod(root, 0o755);
  // The documents use sudo. Here, their commands run as root, so sudo only executes its arguments.
  await writeFile(join(root, 'usr', 'bin', 'sudo'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });

  const home = join(root, 'root');
  await mkdir(join(home, 'dist-package'));
  await copyFile(EXECUTABLE ?? '', join(home, 'dist-package', 'pets-linux-x64'));
  const built = join(repository, 'dist-package');
  for (const name of readdirSync(built).filter((name) => name.endsWith('.deb')))
    await copyFile(join(built, name), join(home, name));
  for (const [i, { text }] of blocks.entries())
    await writeFile(join(home, `block-${i}.sh`), text.replace('apt install', 'apt-get install --yes'));
  await writeFile(join(home, 'script'), SCRIPT);
  const units = join(root, 'etc', 'systemd', 'system');
  await writeFile(join(units, 'script.service'), UNIT);
  await mkdir(join(units, 'graphical.target.wants'), { recursive: true });
  await symlink('../script.service', join(units, 'graphical.target.wants', 'script.service'));
  // Give Debian its own loopback interface, because another program may use the port of the service.
  const nspawn = ['--quiet', '--register=no', '--keep-unit', '--console=pipe', '--private-network'];
  const start = ['120', 'systemd-nspawn', ...nspawn, '--boot', '-D', root];
  const booted = await runProgram('timeout', start, { cwd: root });
  const output = await readFile(join(home, 'output'), 'utf8').catch(() => booted.output);
  expect(readdirSync(home), output).toContain('done');
}, 600_000);
