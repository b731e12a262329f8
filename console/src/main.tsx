// Begins: reads who is logged in, draws the application.

import { render } from 'preact';
import { App } from './app';
import { refreshSession } from './state';
import './styles/index.css';

const root = document.getElementById('app');
if (root) {
  render(<App />, root);
  void refreshSession();
}
