// `npm run package` builds the executable for Linux and the Debian package.
import { statSync } from 'node:fs';
import { buildDebianPackage } from './debian.ts';
import { buildExecutable } from './executable.ts';

const executable = buildExecutable();
for (const path of [executable, buildDebianPackage(executable)]) {
  console.log(`${path}: ${(statSync(path).size / 1e6).toFixed(1)} MB`);
}
