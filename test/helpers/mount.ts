import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { temporaryDirectory } from './temp.ts';

// Mounts file systems for tests of full and read-only disks. Only root can mount.

const MEBIBYTE = 2 ** 20;

/** Whether this process can mount a file system. */
export const canMount = (() => {
  if (process.platform !== 'linux') return false;
  const directory = mkdtempSync(join(tmpdir(), 'pets-mount-'));
  const { status } = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', directory]);
  if (status === 0) execFileSync('umount', [directory]);
  rmSync(directory, { recursive: true });
  return status === 0;
})();

/** Mounts an empty file system of 1 MiB. Returns its directory, and functions that fill it and make space again. */
export async function mountSmallDisk() {
  const directory = await temporaryDirectory();
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', directory]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', directory]));
  const filler = join(directory, 'filler');
  return {
    directory,
    /** Fills the file system, except about `free` bytes. */
    fill(free = 0): void {
      const file = openSync(filler, 'a');
      try {
        for (let size = MEBIBYTE; size >= 1; size >>= 1) writeAll(file, size);
      } finally {
        closeSync(file);
      }
      if (free > 0) execFileSync('truncate', ['--size', `-${free}`, filler]);
    },
    empty: () => rmSync(filler, { force: true }),
  };
}

/** Writes blocks of this size until there is no space for another one. */
function writeAll(file: number, size: number): void {
  const block = Buffer.alloc(size);
  try {
    while (writeSync(file, block) === size);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error;
  }
}

/** Mounts a directory a second time, read-only. `makeWritable` removes that restriction. */
export async function mountReadOnly(directory: string) {
  const copy = join(await temporaryDirectory(), 'read-only');
  await mkdir(copy);
  execFileSync('mount', ['--bind', directory, copy]);
  execFileSync('mount', ['-o', 'remount,bind,ro', copy]);
  onTestFinished(() => void execFileSync('umount', ['--lazy', copy]));
  return {
    directory: copy,
    makeWritable: () => void execFileSync('mount', ['-o', 'remount,bind,rw', copy]),
  };
}
