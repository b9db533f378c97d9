import type { Command, CommandGroup } from '../program/command.ts';
import { add } from './add.ts';
import { completion } from './completion.ts';
import { countCommand } from './count.ts';
import { find } from './find.ts';
import { get } from './get.ts';
import { help } from './help.ts';
import { importCommand } from './import.ts';
import { keys } from './keys.ts';
import { list } from './list.ts';
import { login } from './login.ts';
import { logout } from './logout.ts';
import { orders } from './orders.ts';
import { profiles } from './profiles.ts';
import { serve } from './serve.ts';
import { store } from './store.ts';
import { use } from './use.ts';

/** All commands, in the order of the help page. */
export const commands: readonly (Command | CommandGroup)[] = [
  list,
  find,
  countCommand,
  get,
  add,
  importCommand,
  orders,
  login,
  logout,
  profiles,
  use,
  serve,
  keys,
  store,
  completion,
  help,
];
