import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import manifest from '../../package.json' with { type: 'json' };
import { completionScripts } from '../../src/cli/commands/completion.ts';
import { licenseTexts, OUTPUT } from './executable.ts';
import { manPage } from './man-page.ts';

// Builds the Debian package around the executable for Linux.

const TEMPLATES = join(import.meta.dirname, 'debian');
const SEE_ALSO = 'The documents in /usr/share/doc/pets. The service: systemctl cat pets';
const REVISION = `${manifest.version}-1`;

/** The scripts that dpkg runs. */
const MAINTAINER_SCRIPTS = ['postinst', 'prerm', 'postrm'];

/** Builds the package around an executable, and returns the path of the package. */
export function buildDebianPackage(executable: string): string {
  const stage = join(OUTPUT, 'work', 'debian');
  rmSync(stage, { recursive: true, force: true });
  const date = buildDate();
  const add = (path: string, content: string | Uint8Array, mode = 0o644) => {
    const file = join(stage, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    chmodSync(file, mode);
  };

  add('usr/bin/pets', readFileSync(executable), 0o755);
  add('usr/lib/systemd/system/pets.service', readFileSync('docs/examples/pets.service'));
  add('usr/share/bash-completion/completions/pets', completionScripts.bash);
  add('usr/share/zsh/vendor-completions/_pets', completionScripts.zsh);
  add('usr/share/fish/vendor_completions.d/pets.fish', completionScripts.fish);
  const day = date.toISOString().slice(0, 10);
  add('usr/share/man/man1/pets.1.gz', compress(manPage(manifest.version, day, SEE_ALSO)));
  add('usr/share/doc/pets/copyright', licenseTexts());
  add('usr/share/doc/pets/changelog.gz', compress(readFileSync('CHANGELOG.md')));
  add('usr/share/doc/pets/changelog.Debian.gz', compress(debianChangelog(date)));
  add('usr/share/lintian/overrides/pets', readFileSync(join(TEMPLATES, 'lintian-overrides')));
  cpSync('docs', join(stage, 'usr/share/doc/pets/docs'), { recursive: true });
  cpSync('README.md', join(stage, 'usr/share/doc/pets/README.md'));

  const files = filesBelow(stage);
  const bytes = files.reduce((sum, path) => sum + statSync(join(stage, path)).size, 0);
  add('DEBIAN/control', control(executable, Math.ceil(bytes / 1024)));
  add('DEBIAN/md5sums', files.map((path) => `${md5(join(stage, path))}  ${path}\n`).join(''));
  for (const name of MAINTAINER_SCRIPTS) {
    add(`DEBIAN/${name}`, readFileSync(join(TEMPLATES, name)), 0o755);
  }

  const output = join(OUTPUT, `pets_${REVISION}_amd64.deb`);
  const env = { ...process.env, SOURCE_DATE_EPOCH: `${date.getTime() / 1_000}` };
  execFileSync('chmod', ['-R', 'u=rwX,go=rX', stage]);
  execFileSync('dpkg-deb', ['--root-owner-group', '-Zxz', '-z7', '--build', stage, output], { env });
  return output;
}

/** The time of the last commit, so that two builds of a commit have the same files. Without git, the current time. */
function buildDate(): Date {
  try {
    const seconds = execFileSync('git', ['log', '-1', '--format=%ct'], { encoding: 'utf8' });
    return new Date(Number(seconds) * 1_000);
  } catch {
    return new Date(Math.floor(Date.now() / 1_000) * 1_000);
  }
}

/** @param size in KiB */
function control(executable: string, size: number): string {
  return readFileSync(join(TEMPLATES, 'control'), 'utf8')
    .replace('@VERSION@', REVISION)
    .replace('@DEPENDS@', sharedLibraries(executable))
    .replace('@SIZE@', `${size}`);
}

/** The packages with the shared libraries that the executable needs, with their minimum versions. */
function sharedLibraries(executable: string): string {
  const directory = join(OUTPUT, 'work', 'shlibdeps');
  mkdirSync(join(directory, 'debian'), { recursive: true });
  // dpkg-shlibdeps refuses to run without this file.
  writeFileSync(join(directory, 'debian', 'control'), 'Source: pets\n\nPackage: pets\nArchitecture: amd64\n');
  const args = ['-O', '--ignore-missing-info', resolve(executable)];
  const output = execFileSync('dpkg-shlibdeps', args, { cwd: directory, encoding: 'utf8' });
  return output.replace(/^shlibs:Depends=/, '').trim();
}

const debianChangelog = (date: Date): string =>
  `pets (${REVISION}) unstable; urgency=medium

  * The changes are in changelog.gz.

 -- ${maintainer()}  ${date.toUTCString().replace('GMT', '+0000')}
`;

function maintainer(): string {
  const [, name = ''] = /^Maintainer: (.*)$/m.exec(readFileSync(join(TEMPLATES, 'control'), 'utf8')) ?? [];
  return name;
}

const compress = (content: string | Uint8Array): Uint8Array => gzipSync(content, { level: 9 });

const md5 = (path: string): string => createHash('md5').update(readFileSync(path)).digest('hex');

/** The paths of all files below a directory, relative to it. */
const filesBelow = (directory: string): string[] =>
  readdirSync(directory, { recursive: true, encoding: 'utf8' })
    .filter((path) => statSync(join(directory, path)).isFile())
    .sort();
