// `npm run package` builds the executable for Linux. With arguments, it builds the executables for these platforms.
import { statSync } from 'node:fs';
import { buildExecutable } from './executable.ts';
import { type Platform, platforms } from './node.ts';

const names = process.argv.length > 2 ? process.argv.slice(2) : ['linux-x64'];
const unknown = names.filter((name) => !(platforms as string[]).includes(name));
if (unknown.length > 0) {
  console.error(`unknown platform: ${unknown.join(', ')}\nuse: ${platforms.join(', ')}`);
  process.exitCode = 2;
} else {
  for (const platform of names as Platform[]) report(buildExecutable(platform));
}

function report(path: string): void {
  console.log(`${path}: ${(statSync(path).size / 1e6).toFixed(1)} MB`);
}
