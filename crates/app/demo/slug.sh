# Turns a title into the part of an address: "Hello World" becomes hello-world.
slug() {
    printf '%s\n' "$1" |
        tr '[:upper:]' '[:lower:]' |
        sed -e 's/[^a-z0-9]/-/g'
}
