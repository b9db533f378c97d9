// Builds an executable: Node with the files of dist/ as assets.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Platform, pinnedLicense, pinnedNode, thisPlatform } from './node.ts';

const DIST = 'dist';
export const OUTPUT = 'dist-package';

/** The name of the executable for a platform. The files for other platforms are not signed, and no test runs them. */
export function executableName(platform: Platform): string {
  if (platform === 'linux-x64') return `pets-${platform}`;
  return `pets-${platform}-unsigned-untested${platform.startsWith('win') ? '.exe' : ''}`;
}

/** Builds the executable for a platform, and returns its path. */
export function buildExecutable(platform: Platform): string {
  if (thisPlatform === undefined) throw new Error('this machine has no pinned version of Node');
  const work = join(OUTPUT, 'work', platform);
  mkdirSync(work, { recursive: true });
  const node = join(work, 'node');
  copyFileSync(pinnedNode(platform), node);
  if (platform.startsWith('win')) removeSignature(node);
  // Strip before the injection, because strip does not know the injected section.
  if (platform.startsWith('linux')) execFileSync('strip', [node]);
  const licenses = join(OUTPUT, 'LICENSES.txt');
  writeFileSync(licenses, licenseTexts());
  const output = join(OUTPUT, executableName(platform));
  const config = join(work, 'config.json');
  writeFileSync(
    config,
    JSON.stringify({
      main: join(import.meta.dirname, 'main.cjs'),
      executable: node,
      output,
      disableExperimentalSEAWarning: true,
      // NODE_OPTIONS of the user is meant for other programs.
      execArgvExtension: 'none',
      assets: { ...distFiles(), 'LICENSES.txt': licenses },
    }),
  );
  execFileSync(pinnedNode(thisPlatform), ['--build-sea', config], { stdio: 'inherit' });
  return output;
}

/**
 * Removes the signature of a program for Windows, which would not be valid after the injection. The signature is at the end
 * of the file.
 */
function removeSignature(path: string): void {
  const content = readFileSync(path);
  // The position of the optional header of the format PE32+, and in it of the entry for the signature.
  const optionalHeader = content.readUInt32LE(0x3c) + 24;
  const entry = optionalHeader + 112 + 4 * 8;
  const [offset, size] = [content.readUInt32LE(entry), content.readUInt32LE(entry + 4)];
  if (size === 0) return;
  if (offset + size !== content.length) throw new Error(`${path}: the signature is not at the end`);
  content.fill(0, entry, entry + 8);
  writeFileSync(path, content.subarray(0, offset));
}

/** The files of the program by their paths below dist/. */
function distFiles(): Record<string, string> {
  const names = readdirSync(DIST, { recursive: true, withFileTypes: true })
    .filter((each) => each.isFile() && each.name !== 'package.json')
    .map(({ parentPath, name }) => join(parentPath, name));
  return Object.fromEntries(names.map((path) => [path.replaceAll('\\', '/').slice(DIST.length + 1), path]));
}

/** The licences of pets, of the libraries in dist/, and of Node. */
export function licenseTexts(): string {
  const texts = ['LICENSE', join(DIST, 'THIRD-PARTY-LICENSES.txt'), pinnedLicense()];
  return texts.map((path) => readFileSync(path, 'utf8')).join(`\n${'='.repeat(80)}\n\n`);
}
