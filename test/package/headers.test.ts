import { open } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { buildExecutable, executableName } from '../../.config/package/executable.ts';
import type { Platform } from '../../.config/package/node.ts';

// Nothing here runs these files. The tests read their headers.

const HEADER_BYTES = 4096;
const ENABLED_FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2:1';

/** Load commands of Mach-O. */
const SEGMENT_64 = 0x19;
const CODE_SIGNATURE = 0x1d;

/** Builds the executable, and returns its first bytes. */
async function headerOf(platform: Platform): Promise<Buffer> {
  const file = await open(buildExecutable(platform));
  try {
    const { buffer } = await file.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0);
    const content = await file.readFile();
    expect(content.includes(ENABLED_FUSE)).toBe(true);
    return buffer;
  } finally {
    await file.close();
  }
}

test('the file for Windows is a 64-bit console program with the resource of the program', async () => {
  const header = await headerOf('win-x64');
  expect(header.toString('latin1', 0, 2)).toBe('MZ');
  const start = header.readUInt32LE(0x3c);
  expect(header.toString('latin1', start, start + 4)).toBe('PE\0\0');
  const optional = start + 24;
  expect({
    machine: header.readUInt16LE(start + 4),
    magic: header.readUInt16LE(optional),
    subsystem: header.readUInt16LE(optional + 68),
    // The certificate table is entry 4 of the data directory.
    certificateBytes: header.readUInt32LE(optional + 112 + 4 * 8 + 4),
  }).toEqual({ machine: 0x8664, magic: 0x20b, subsystem: 3, certificateBytes: 0 });
});

test.each([
  { platform: 'darwin-x64', processor: 0x01000007 },
  { platform: 'darwin-arm64', processor: 0x0100000c },
] as const)(
  'the file for $platform is a Mach-O program with the segment of the program, without a signature',
  async ({ platform, processor }) => {
    const header = await headerOf(platform);
    const [magic, cpu, , type, count = 0] = Array.from({ length: 5 }, (_, i) => header.readUInt32LE(4 * i));
    expect({ magic, cpu, type }).toEqual({ magic: 0xfeedfacf, cpu: processor, type: 2 });
    const segments: string[] = [];
    let offset = 32;
    for (let i = 0; i < count; i++) {
      const command = header.readUInt32LE(offset);
      expect(command).not.toBe(CODE_SIGNATURE);
      if (command === SEGMENT_64) {
        segments.push(header.toString('latin1', offset + 8, offset + 24).replaceAll('\0', ''));
      }
      offset += header.readUInt32LE(offset + 4);
    }
    expect(segments).toContain('NODE_SEA');
  },
);

test.each(['win-x64', 'darwin-x64', 'darwin-arm64'] as const)(
  'the name of the file for %s says that the file is unsigned and untested',
  (platform) => {
    expect(executableName(platform)).toMatch(/-unsigned-untested(\.exe)?$/);
  },
);
