import { spawnSync } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { chmod, copyFile, mkdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { repository } from './documents.ts';
import { runProgram } from './run-program.ts';

/** The packages for systemd and for pets. They are installed in advance, because the started Debian has no network. */
const PACKAGES = 'systemd,systemd-sysv,dbus,libnss-systemd,libatomic1,libstdc++6';

/** The reason why this machine cannot install and start a Debian of its own; undefined if it can. */
export function whyNoDebianRoot(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root can install a Debian';
  const missing = ['mmdebstrap', 'systemd-nspawn', 'unshare'].filter(
    (name) => spawnSync('sh', ['-c', `command -v ${name}`]).status !== 0,
  );
  return missing.length > 0 ? `not installed: ${missing.join(', ')}` : undefined;
}

/** Installs this machine's release of Debian, or `stable` if it is unknown, into a directory. @throws if that fails */
export async function installDebian(root: string): Promise<void> {
  const release = await readFile('/etc/os-release', 'utf8');
  const [, codename = 'stable'] = /^VERSION_CODENAME=(\S+)$/m.exec(release) ?? [];
  // The hook merges /usr without the package usrmerge, which needs Perl. Installing the two took a quarter of the time.
  const options = ['--variant=apt', '--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr'];
  const args = [...options, `--include=${PACKAGES}`, codename, root];
  const { code, output } = await runProgram('mmdebstrap', args, tmpdir());
  if (code !== 0) throw new Error(`mmdebstrap ended with ${code}: ${output}`);
  // A temporary directory has mode 0700, but the users of Debian must be able to enter its root.
  await chmod(root, 0o755);
  // The documents use sudo. Here, their commands run as root, so sudo only executes its arguments.
  await writeFile(join(root, 'usr', 'bin', 'sudo'), '#!/bin/sh\nexec "$@"\n', { mode: 0o755 });
}

/** Starts Debian, runs a script as root, stops Debian, and returns the output. @throws if Debian does not start */
export async function bootDebian(root: string, script: string): Promise<string> {
  const units = join(root, 'etc', 'systemd', 'system');
  const unit = `[Unit]
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
  await writeFile(join(root, 'root', 'script'), script);
  await writeFile(join(units, 'script.service'), unit);
  await mkdir(join(units, 'graphical.target.wants'), { recursive: true });
  const link = join(units, 'graphical.target.wants', 'script.service');
  await symlink('../script.service', link).catch(() => {});
  // Give Debian its own loopback interface, because another program may use the port of the service.
  const options = ['--quiet', '--register=no', '--keep-unit', '--console=pipe', '--private-network'];
  const { output } = await runProgram(
    'timeout',
    ['120', 'systemd-nspawn', ...options, '--boot', '-D', root],
    root,
  );
  return readFile(join(root, 'root', 'output'), 'utf8').catch(() => {
    throw new Error(`Debian did not start: ${output}`);
  });
}

export const copyToDebian = (root: string, path: string, name: string): Promise<void> =>
  copyFile(path, join(root, 'root', name));

const directory = join(repository, 'dist-package');

/** The path of the Debian package that `npm run package` has built. */
export const debianPackage = join(
  directory,
  readdirSync(directory).find((name) => name.endsWith('.deb')) ?? '',
);
