// Loaded before a server of somebody else that listens on every address: it listens on this machine
// alone, and says on which port.
const net = require("node:net");

const listen = net.Server.prototype.listen;

net.Server.prototype.listen = function (port, ...rest) {
  const done = rest.filter((one) => typeof one === "function");
  this.once("listening", () => console.error(`port=${this.address().port}`));
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...done);
};
