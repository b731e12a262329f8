/** Stands in for the browser's WebSocket. */
export class FakeSocket {
  static all: FakeSocket[] = [];
  sent: string[] = [];
  onopen = () => {};
  onclose = () => {};
  onmessage = (_: { data: string }) => {};

  constructor(readonly address: string) {
    FakeSocket.all.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.onclose();
  }

  receive(message: object): void {
    this.onmessage({ data: JSON.stringify(message) });
  }
}
