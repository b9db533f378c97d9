import { execFile, execFileSync, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, expect, test } from 'vitest';
import { commands } from '../../src/cli/main.ts';
import { repository } from '../helpers/documents.ts';
import { testIfInstalled } from '../helpers/skip.ts';
import { makeTemporaryDirectory } from '../helpers/temp.ts';

const directory = join(repository, 'dist-package');
const debianPackage = join(directory, readdirSync(directory).find((name) => name.endsWith('.deb')) ?? '');

/** The files of the package. */
const root = await makeTemporaryDirectory();
afterAll(() => rm(root, { recursive: true }));
execFileSync('dpkg-deb', ['--extract', debianPackage, root]);

test('the Debian package has at most 28 MB', () => {
  expect(statSync(debianPackage).size).toBeLessThanOrEqual(28_000_000);
});

test('the package contains the program, completion, the man page, the unit, the licenses and the documents', () => {
  const paths = readdirSync(root, { recursive: true, encoding: 'utf8' });
  expect(paths).toEqual(
    expect.arrayContaining([
      'usr/bin/pets',
      'usr/lib/systemd/system/pets.service',
      'usr/share/bash-completion/completions/pets',
      'usr/share/doc/pets/copyright',
      'usr/share/doc/pets/docs/install.md',
      'usr/share/fish/vendor_completions.d/pets.fish',
      'usr/share/man/man1/pets.1.gz',
      'usr/share/zsh/vendor-completions/_pets',
    ]),
  );
  const copyright = readFileSync(join(root, 'usr/share/doc/pets/copyright'), 'utf8');
  for (const text of ['MIT License', 'undici', 'Copyright Node.js contributors'])
    expect(copyright).toContain(text);
});

testIfInstalled('man')('the man page shows every command, and man reports no warning', () => {
  const env = { ...process.env, LC_ALL: 'C.UTF-8', MANWIDTH: '100' };
  const args = ['--warnings', '-l', join(root, 'usr/share/man/man1/pets.1.gz')];
  const { stdout, stderr } = spawnSync('man', args, { encoding: 'utf8', env });
  expect(stderr).toBe('');
  for (const { name } of commands) expect(stdout).toContain(`pets ${name}`);
});

testIfInstalled('lintian')(
  'lintian finds nothing besides what the package explains',
  async () => {
    // Spelling mistakes in the texts of Node are not ours, and finding them takes half the time.
    const args = ['--dont-check-part', 'binaries/spelling', '--fail-on', 'error,warning', debianPackage];
    const { stdout } = await promisify(execFile)('lintian', args);
    expect(stdout).toBe('');
  },
  // It has much to read, which takes minutes on a busy machine.
  600_000,
);
