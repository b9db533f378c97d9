// `npm run package` builds the executable for Linux and the Debian package. With arguments, it builds only the executables
// for these platforms, or the Debian package with `deb`.
import { statSync } from 'node:fs';
import { buildDebianPackage } from './debian.ts';
import { buildExecutable } from './executable.ts';
import { type Platform, platforms } from './node.ts';

const targets: readonly string[] = [...platforms, 'deb'];
const names = process.argv.length > 2 ? process.argv.slice(2) : ['deb'];
const unknown = names.filter((name) => !targets.includes(name));
if (unknown.length > 0) {
  console.error(`unknown: ${unknown.join(', ')}\nuse: ${targets.join(', ')}`);
  process.exitCode = 2;
} else {
  for (const name of names) {
    const executable = buildExecutable(name === 'deb' ? 'linux-x64' : (name as Platform));
    report(executable);
    if (name === 'deb') report(buildDebianPackage(executable));
  }
}

function report(path: string): void {
  console.log(`${path}: ${(statSync(path).size / 1e6).toFixed(1)} MB`);
}
