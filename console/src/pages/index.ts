// The pages: their names in the address, their letters behind `g`, what draws them.

import type { ComponentType } from 'preact';
import { Clients } from './clients';
import { CommandLine } from './command_line';
import { Configuration } from './configuration';
import { HotAndBig } from './hot_and_big';
import { Keys } from './keys';
import { Memory } from './memory';
import { Overview } from './overview';
import { Persistence } from './persistence';
import { PublishSubscribe } from './publish_subscribe';
import { ReplicationPage } from './replication';
import { SlowLog } from './slow_log';

export interface Page {
  id: string;
  title: string;
  letter: string;
  /** The path of its icon, in a square of 20. */
  icon: string;
  draw: ComponentType;
}

export const PAGES: Page[] = [
  {
    id: 'overview',
    title: 'Overview',
    letter: 'd',
    icon: 'M3 16V9m5 7V4m5 12v-5m4 5V7',
    draw: Overview,
  },
  { id: 'keys', title: 'Keys', letter: 'k', icon: 'M3 4h6v4H3zm8 8h6v4h-6zM6 8v6h5', draw: Keys },
  {
    id: 'command-line',
    title: 'Command line',
    letter: 't',
    icon: 'm3 5 5 5-5 5m7 0h7',
    draw: CommandLine,
  },
  {
    id: 'clients',
    title: 'Clients',
    letter: 'c',
    icon: 'M10 10a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7Zm-7 7c.5-3.5 3-5 7-5s6.500 1.500 7 5',
    draw: Clients,
  },
  {
    id: 'slow-log',
    title: 'Slow log',
    letter: 's',
    icon: 'M10 17a7 7 0 1 0 0-14 7 7 0 0 0 0 14Zm0-11v4l3 2',
    draw: SlowLog,
  },
  {
    id: 'hot-and-big',
    title: 'Hot and big keys',
    letter: 'h',
    icon: 'M10 3c1 3 5 5 5 9a5 5 0 0 1-10 0c0-2 1-3 2-4 0 2 1 3 2 3 1-2 0-5 1-8Z',
    draw: HotAndBig,
  },
  {
    id: 'memory',
    title: 'Memory',
    letter: 'm',
    icon: 'M5 5h10v10H5zM8 2v3m4-3v3M8 15v3m4-3v3M2 8h3M2 12h3m10-4h3m-3 4h3',
    draw: Memory,
  },
  {
    id: 'publish-subscribe',
    title: 'Publish, subscribe',
    letter: 'p',
    icon: 'M10 11a1 1 0 1 0 0-2 1 1 0 0 0 0 2ZM6.500 13.500a5 5 0 0 1 0-7m7 0a5 5 0 0 1 0 7m-9.500 2.500a8.500 8.500 0 0 1 0-12m12 0a8.500 8.500 0 0 1 0 12',
    draw: PublishSubscribe,
  },
  {
    id: 'persistence',
    title: 'Persistence',
    letter: 'b',
    icon: 'M4 3h10l3 3v11H4zm3 0v5h6V3M7 17v-5h7v5',
    draw: Persistence,
  },
  {
    id: 'replication',
    title: 'Replication',
    letter: 'r',
    icon: 'M8 4H3v4h5zM17 12h-5v4h5zM8 6h6.500v6M12 14H5.500V8',
    draw: ReplicationPage,
  },
  {
    id: 'configuration',
    title: 'Configuration',
    letter: 'f',
    icon: 'M3 6h8m4 0h2M3 14h2m4 0h8M13 8.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Zm-6 8a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5Z',
    draw: Configuration,
  },
];
