import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from './documents.ts';

const directory = join(repository, 'dist-package');

/** The path of the Debian package that `npm run package` has built. */
export const debianPackage = join(
  directory,
  readdirSync(directory).find((name) => name.endsWith('.deb')) ?? '',
);
