import { readdirSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from 'vitest';
import { readBlocks, readDocument, repository } from '../helpers/documents.ts';
import { EXECUTABLE } from '../helpers/pets.ts';
import { runProgram } from '../helpers/run-program.ts';
import { isInstalled, testIf } from '../helpers/skip.ts';
import { makeTemporaryDirectory } from '../helpers/temp.ts';

// These tests install the Debian package on a new Debian without Node, which systemd-nspawn starts.

const missing = ['mmdebstrap', 'systemd-nspawn', 'unshare'].filter((name) => !isInstalled(name));
const isRoot = process.getuid?.() === 0;
const canInstall = isRoot && missing.length === 0;
const test = testIf(
  canInstall,
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
ExecStart=/bin/sh /root/script
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

/** Installs, uses, removes and reinstalls the package, and runs commands of the README. Prints lines `name: text`. */
const SCRIPT = `
report() { name=$1; shift; echo "$name: $("$@" 2>&1 | tr '\\n' ' ')"; }
mkdir -p .local/bin
report node sh -c 'command -v node nodejs npm'
sh -eu block-0.sh > output-0 2>&1 || cat output-0
report version pets --version --json
report manual test -e /usr/share/man/man1/pets.1.gz
report enabled systemctl is-enabled pets
report active systemctl is-active pets
report verify sh -c 'systemd-analyze verify --man=no pets.service 2>&1 | grep pets'
report security sh -c 'systemd-analyze security --no-pager pets.service | tail -1'
sh -eu block-2.sh > output-1 2>&1 || cat output-1
sh -eu block-3.sh > output-1 2>&1 || cat output-1
report enabled-later systemctl is-enabled pets
report active-later systemctl is-active pets
report owner stat -c %U:%a /var/lib/private/pets /var/lib/private/pets/store/keys/till-1.json
export PETS_API_KEY=$(grep '^pets_' output-1) PETS_BASE_URL=http://127.0.0.1:7387/v1
wait_until_ready() { for i in $(seq 100); do pets orders > /dev/null 2>&1 && break; sleep 0.1; done; }
wait_until_ready
report add pets add Rex --category 1 --json
systemctl restart pets
wait_until_ready
report list pets list --json --max-wait 0
sh -eu block-4.sh > output-2 2>&1 || cat output-2
pets add Bella --category 1 > /dev/null 2>&1
sh -eu block-5.sh > output-2 2>&1 || cat output-2
wait_until_ready
report restored pets list --json --max-wait 0
report log-without-keys sh -c 'journalctl --unit pets | grep -c pets_'
report access sh -c 'systemctl show --property=User,DynamicUser,ProtectSystem --value pets'
report upgrade sh -c 'apt-get install --yes --reinstall ./pets_*_amd64.deb > output-2 2>&1; systemctl is-active pets'
sh -eu block-1.sh > output-3 2>&1 || cat output-3
report one-file .local/bin/pets --version --json
report remove sh -c 'apt-get remove --yes pets > output-4 2>&1; systemctl is-active pets; ls /var/lib/private/pets'
apt-get install --yes ./pets_*_amd64.deb > output-5 2>&1
unset PETS_API_KEY PETS_BASE_URL
pets serve --seed > serve-output 2>&1 &
for i in $(seq 100); do grep -q 'try:' serve-output && break; sleep 0.1; done
report readme-list sh -c 'pets --profile local list --status available --limit 3 --json 2> /dev/null'
report readme-add pets --profile local add 'Rex the Second' --category 1 --json
grep -o 'pets_[A-Za-z0-9_-]*' serve-output | head -1 > key.txt
report readme-login sh -c 'pets login --base-url http://127.0.0.1:7387/v1 < key.txt'
report readme-prod sh -c 'pets --profile prod list --json 2> /dev/null'
report readme-command sh -c 'pets serve --ephemeral --seed --quiet -- pets list --json --limit 1'
kill $!
`;

let root = '';
let results: Record<string, string> = {};

beforeAll(async () => {
  if (!canInstall) return;
  root = await makeTemporaryDirectory();
  // Install this machine's release of Debian, or `stable` if it is unknown.
  const release = await readFile('/etc/os-release', 'utf8');
  const [, codename = 'stable'] = /^VERSION_CODENAME=(\S+)$/m.exec(release) ?? [];
  // The hook merges /usr without the package usrmerge, which needs Perl. Installing the two took a quarter of the time.
  const options = ['--variant=apt', '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr'];
  const args = [...options, `--include=${PACKAGES}`, codename, root];
  const installed = await runProgram('mmdebstrap', args, { cwd: tmpdir() });
  if (installed.code !== 0) throw new Error(`mmdebstrap ended with ${installed.code}: ${installed.output}`);
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
  const booted = await runProgram('timeout', ['120', 'systemd-nspawn', ...nspawn, '--boot', '-D', root], {
    cwd: root,
  });
  const output = await readFile(join(home, 'output'), 'utf8').catch(() => {
    throw new Error(`Debian did not start: ${booted.output}`);
  });
  results = Object.fromEntries(
    [...output.matchAll(/^([\w-]+): ?(.*)$/gm)].map(([, name = '', text = '']) => [name, text.trim()]),
  );
}, 600_000);

afterAll(() => root && rm(root, { recursive: true, force: true }));

test('a new Debian has no Node, and the installed package prints its version', () => {
  expect(results['node']).toBe('');
  expect(JSON.parse(results['version'] ?? '')).toHaveProperty('version');
  expect(JSON.parse(results['one-file'] ?? '')).toHaveProperty('version');
});

test('the installation neither enables nor starts the service', () => {
  expect(results).toMatchObject({ enabled: 'disabled', active: 'inactive' });
});

test('systemd finds no problem in the unit, and rates its exposure as OK', () => {
  expect(results['verify']).toBe('');
  expect(results['security']).toMatch(/exposure level for pets\.service: 1\.\d OK/);
});

test('the documented commands create a key as the user of the unit, and start the service', () => {
  expect(results).toMatchObject({
    'enabled-later': 'enabled',
    'active-later': 'active',
    owner: 'pets:700 pets:600',
    access: 'pets yes strict',
  });
});

test('the service keeps an animal over a restart, and its log contains no key', () => {
  expect(JSON.parse(results['add'] ?? '')).toMatchObject({ name: 'Rex' });
  expect(JSON.parse(results['list'] ?? '')).toMatchObject([{ name: 'Rex' }]);
  expect(results['log-without-keys']).toBe('0');
});

test('the documented commands restore a backup, without what was added after it', () => {
  expect(JSON.parse(results['restored'] ?? '')).toMatchObject([{ name: 'Rex' }]);
});

test('an upgrade restarts the service, and removal stops it and keeps the store', () => {
  expect(results['upgrade']).toBe('active');
  expect(results['remove']).toMatch(/^inactive .*\bstore\b/);
});

test('the first steps of the README work with the installed package', () => {
  expect(JSON.parse(results['readme-list'] ?? '')).toHaveLength(3);
  expect(JSON.parse(results['readme-add'] ?? '')).toMatchObject({ name: 'Rex the Second' });
  expect(results['readme-login']).toContain('to profile prod');
  expect(JSON.parse(results['readme-prod'] ?? '')).toHaveLength(20);
  expect(results['readme-command']).toContain('"name":"Rex"');
});
