import { readFileSync } from 'node:fs';

/** The animals in the file given on the command line. */
export const { pets: animals } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
export const authorization = 'Bearer bench';
