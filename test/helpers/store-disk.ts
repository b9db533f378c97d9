import { basename, dirname } from 'node:path';
import type { FileStatus, FileSystem, OpenFile } from '../../src/system/file-system.ts';

type Change = { position: number; bytes: Buffer } | { length: number };
/** The names that one call sets or removes in a directory. A name without a node is removed. */
type Naming = [string, Node | undefined][];

/** `cached` is what programs read, `durable` is what the disk has, and `pending` are the unsynced changes. */
type FileNode = { ino: number; cached: Buffer; durable: Buffer; pending: Change[] };
type DirectoryNode = { cached: Map<string, Node>; durable: Map<string, Node>; pending: Naming[] };
type Node = FileNode | DirectoryNode;

/** The result of a call. The call fails with `errno`, ends the process (`halt`), or succeeds (undefined). */
type Fate = { errno: 'EIO' | 'ENOSPC' } | 'halt' | undefined;

/**
 * A file system in memory that distinguishes written and synced data, both for the bytes of files and for the names in
 * directories. `random` returns numbers from 0 up to 1 and decides everything that a real disk leaves undefined.
 */
export class SimulatedDisk implements FileSystem {
  /** Decides what happens in each call, by its number and name. */
  fate: (call: number, name: string) => Fate = () => undefined;
  calls = 0;
  #random: () => number;
  #root: DirectoryNode = directoryNode();
  #inodes = 0;
  #processes = 0;
  #halted = false;
  #halt: () => void = () => {};
  /** Resolves when the process has ended. */
  halted: Promise<'halted'>;

  constructor(random: () => number) {
    this.#random = random;
    this.halted = this.#startProcess();
  }

  /** Starts a new process, which can read all written data, synced or not, except what a power loss has removed. */
  restart(): void {
    this.calls = 0;
    this.fate = () => undefined;
    this.#processes++;
    this.halted = this.#startProcess();
  }

  /**
   * The file system as the current process sees it. After the process has ended, its calls never return, not even those
   * that its code makes after another process has started.
   */
  ofProcess(): FileSystem {
    const number = this.#processes;
    const guard = <Methods extends object>(methods: Methods): Methods =>
      new Proxy(methods, {
        get: (_, name) => {
          const method = Reflect.get(methods, name);
          if (typeof method !== 'function') return method;
          return async (...args: unknown[]) => {
            if (number !== this.#processes) await new Promise(() => {});
            const result = await method.apply(methods, args);
            return name === 'open' ? guard(result) : result;
          };
        },
      });
    return guard<FileSystem>(this);
  }

  /** Ends the process. The calls of an ended process never return. */
  end(): void {
    this.#halted = true;
    this.#halt();
  }

  /** Loses or tears some of the data that was not synced. */
  losePower(): void {
    this.#loseIn(this.#root);
  }

  async open(path: string, mode: 'read' | 'readwrite' | 'create'): Promise<OpenFile> {
    await this.#call(`open ${mode}`);
    if (mode === 'create') {
      const none = () => Buffer.alloc(0);
      const file: FileNode = { ino: ++this.#inodes, cached: none(), durable: none(), pending: [] };
      this.#add(path, file);
      return this.#handle(file);
    }
    const found = this.#node(path);
    if (isDirectory(found)) throw errno('EISDIR');
    return this.#handle(found);
  }

  async rename(from: string, to: string): Promise<void> {
    await this.#call('rename');
    name(this.#directory(dirname(from)), [
      [basename(from), undefined],
      [basename(to), this.#node(from)],
    ]);
  }

  async link(): Promise<void> {
    throw new Error('not simulated');
  }

  async unlink(path: string): Promise<void> {
    await this.#call('unlink');
    this.#node(path);
    name(this.#directory(dirname(path)), [[basename(path), undefined]]);
  }

  async mkdir(path: string): Promise<void> {
    await this.#call('mkdir');
    this.#add(path, directoryNode());
  }

  async chmod(_path: string, _mode: number): Promise<void> {
    await this.#call('chmod');
  }

  async readdir(path: string): Promise<string[]> {
    await this.#call('readdir');
    return [...this.#directory(path).cached.keys()];
  }

  async stat(path: string): Promise<FileStatus> {
    await this.#call('stat');
    const found = this.#node(path);
    if (isDirectory(found)) throw errno('ENOENT');
    return statusOf(found);
  }

  async version(): Promise<string> {
    throw new Error('not simulated');
  }

  async syncDirectory(path: string): Promise<void> {
    const directory = this.#directory(path);
    await this.#call('syncDirectory');
    for (const naming of directory.pending.splice(0)) rename(directory.durable, naming);
  }

  #handle(file: FileNode): OpenFile {
    return {
      read: async (buffer, offset, length, position) => {
        await this.#call('read');
        const part = file.cached.subarray(position, position + Math.min(length, this.#some(length)));
        buffer.set(part, offset);
        return part.length;
      },
      write: async (buffer, offset, length, position) => {
        const bytes = Buffer.from(buffer.subarray(offset, offset + this.#some(length)));
        // The bytes may be written even if the call fails or the process ends.
        const isEarly = this.#random() < 0.5;
        if (isEarly) change(file, { position, bytes });
        await this.#call('write');
        if (!isEarly) change(file, { position, bytes });
        return bytes.length;
      },
      datasync: async () => {
        await new Promise(setImmediate);
        try {
          await this.#call('datasync');
        } catch (error) {
          this.#failSync(file);
          throw error;
        }
        this.#flush(file);
      },
      truncate: async (length) => {
        await this.#call('truncate');
        change(file, { length });
      },
      stat: async () => {
        await this.#call('status');
        return statusOf(file);
      },
      close: () => this.#call('close'),
    };
  }

  /** After a failed sync, a system can write, keep or drop changes. Dropped changes are readable until a power loss. */
  #failSync(file: FileNode): void {
    const kind = this.#random();
    if (kind < 0.3) this.#flush(file);
    else if (kind < 0.7) file.pending = [];
  }

  #flush(file: FileNode): void {
    for (const one of file.pending.splice(0)) file.durable = changed(file.durable, one);
  }

  async #call(name: string): Promise<void> {
    const fate = this.#halted ? undefined : this.fate(this.calls++, name);
    if (fate === 'halt') this.end();
    if (this.#halted) await new Promise(() => {});
    if (typeof fate === 'object') throw errno(fate.errno);
  }

  /** How many bytes a read or write transfers: usually all, but in a tenth of the calls possibly fewer. */
  #some(length: number): number {
    return this.#random() < 0.9 ? length : 1 + Math.floor(this.#random() * length);
  }

  #startProcess(): Promise<'halted'> {
    this.#halted = false;
    return new Promise((done) => {
      this.#halt = () => done('halted');
    });
  }

  #loseIn(directory: DirectoryNode): void {
    for (const naming of directory.pending.splice(0)) {
      if (this.#random() < 0.5) rename(directory.durable, naming);
    }
    directory.cached = new Map(directory.durable);
    for (const node of directory.durable.values()) {
      if (isDirectory(node)) this.#loseIn(node);
      else this.#tear(node);
    }
  }

  #tear(file: FileNode): void {
    // The number of bytes that are written atomically, from one byte to a sector.
    const unit = 1 + Math.floor(this.#random() ** 3 * 512);
    for (const one of file.pending.splice(0)) {
      const kind = this.#random();
      if (kind < 0.4) continue;
      if (kind < 0.6 || 'length' in one) {
        file.durable = changed(file.durable, one);
        continue;
      }
      const { position, bytes } = one;
      // The new length can reach the disk before the bytes.
      if (kind < 0.8) file.durable = lengthened(file.durable, position + bytes.length);
      let length = file.durable.length;
      const torn = Buffer.from(lengthened(file.durable, position + bytes.length));
      for (let at = 0; at < bytes.length; at += unit) {
        if (this.#random() < 0.3) continue;
        const part = bytes.subarray(at, at + unit);
        part.copy(torn, position + at);
        length = Math.max(length, position + at + part.length);
      }
      file.durable = torn.subarray(0, length);
    }
    file.cached = Buffer.from(file.durable);
  }

  #node(path: string): Node {
    let node: Node = this.#root;
    for (const part of path.split('/').filter(Boolean)) {
      const next: Node | undefined = isDirectory(node) ? node.cached.get(part) : undefined;
      if (!next) throw errno('ENOENT');
      node = next;
    }
    return node;
  }

  #directory(path: string): DirectoryNode {
    const node = this.#node(path);
    if (!isDirectory(node)) throw errno('ENOTDIR');
    return node;
  }

  #add(path: string, node: Node): void {
    const directory = this.#directory(dirname(path));
    if (directory.cached.has(basename(path))) throw errno('EEXIST');
    name(directory, [[basename(path), node]]);
  }
}

const statusOf = ({ ino, cached }: FileNode): FileStatus => ({ dev: 1, ino, size: cached.length });
const directoryNode = (): DirectoryNode => ({ cached: new Map(), durable: new Map(), pending: [] });
const isDirectory = (node: Node): node is DirectoryNode => node.cached instanceof Map;
const errno = (code: string) => Object.assign(new Error(`${code}: simulated`), { code });

function name(directory: DirectoryNode, naming: Naming): void {
  rename(directory.cached, naming);
  directory.pending.push(naming);
}

function rename(names: Map<string, Node>, naming: Naming): void {
  for (const [key, node] of naming) {
    if (node) names.set(key, node);
    else names.delete(key);
  }
}

function change(file: FileNode, one: Change): void {
  file.cached = changed(file.cached, one);
  file.pending.push(one);
}

function changed(content: Buffer, one: Change): Buffer {
  if ('length' in one) return lengthened(content.subarray(0, one.length), one.length);
  const copy = Buffer.from(lengthened(content, one.position + one.bytes.length));
  one.bytes.copy(copy, one.position);
  return copy;
}

function lengthened(content: Buffer, length: number): Buffer {
  return content.length >= length ? content : Buffer.concat([content], length);
}
