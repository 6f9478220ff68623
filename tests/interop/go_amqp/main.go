// Scenarios of go-amqp, the Azure-style client for Go: program PORT SCENARIO
// Each one checks what it must see and ends with "ok".
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/Azure/go-amqp"
)

var ctx, _ = context.WithTimeout(context.Background(), 30*time.Second)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func expect(holds bool, what string) {
	if !holds {
		panic(what)
	}
}

func connect(password string) (*amqp.Conn, error) {
	options := &amqp.ConnOptions{
		SASLType:     amqp.SASLTypePlain("admin", password),
		MaxFrameSize: 4096,
	}
	return amqp.Dial(ctx, "amqp://127.0.0.1:"+os.Args[1], options)
}

func session() (*amqp.Conn, *amqp.Session) {
	conn, err := connect("password")
	check(err)
	session, err := conn.NewSession(ctx, nil)
	check(err)
	return conn, session
}

func send(session *amqp.Session, address string, messages ...*amqp.Message) {
	sender, err := session.NewSender(ctx, address, nil)
	check(err)
	for _, message := range messages {
		check(sender.Send(ctx, message, nil))
	}
	check(sender.Close(ctx))
}

func text(body string) *amqp.Message {
	return &amqp.Message{Value: body}
}

func receiver(session *amqp.Session, address string, options *amqp.ReceiverOptions) *amqp.Receiver {
	receiver, err := session.NewReceiver(ctx, address, options)
	check(err)
	return receiver
}

func next(receiver *amqp.Receiver) *amqp.Message {
	message, err := receiver.Receive(ctx, nil)
	check(err)
	return message
}

func roundtrip() {
	conn, session := session()
	group, sequence := "g", uint32(1)
	message := amqp.NewMessage([]byte{0, 255})
	message.Header = &amqp.MessageHeader{Durable: true, Priority: 7}
	message.Properties = &amqp.MessageProperties{
		MessageID: uint64(5), GroupID: &group, GroupSequence: &sequence,
	}
	message.ApplicationProperties = map[string]any{"number": int32(7), "flag": true}
	send(session, "go.roundtrip", message)
	reader := receiver(session, "go.roundtrip", nil)
	got := next(reader)
	expect(bytes.Equal(got.GetData(), []byte{0, 255}), "another body")
	expect(got.Properties.MessageID == uint64(5), "another id")
	expect(*got.Properties.GroupID == "g" && *got.Properties.GroupSequence == 1, "another group")
	expect(got.ApplicationProperties["number"] == int32(7), "another number")
	expect(got.Header.Durable && got.Header.Priority == 7, "another header")
	expect(got.Annotations["x-opt-group-first-for-consumer"] == true, "not the first")
	check(reader.AcceptMessage(ctx, got))
	check(conn.Close())
}

func refusals() {
	_, err := connect("wrong")
	expect(err != nil, "was let in")
	conn, session := session()
	_, err = session.NewReceiver(ctx, "nosuch://x", nil)
	var refused *amqp.LinkError
	var why *amqp.Error
	isAmqp := errors.As(err, &why) || (errors.As(err, &refused) && refused.RemoteErr != nil)
	expect(isAmqp, fmt.Sprintf("no reason: %v", err))
	check(conn.Close())
}

func outcomes() {
	conn, session := session()
	send(session, "go.outcomes", text("x"))
	first := receiver(session, "go.outcomes", nil)
	message := next(first)
	check(first.ReleaseMessage(ctx, message))
	message = next(first)
	expect(message.Header.DeliveryCount == 0, "a release was counted")
	check(first.ModifyMessage(ctx, message, &amqp.ModifyMessageOptions{DeliveryFailed: true}))
	message = next(first)
	expect(message.Header.DeliveryCount == 1, "a failure was not counted")
	here := &amqp.ModifyMessageOptions{DeliveryFailed: true, UndeliverableHere: true}
	check(first.ModifyMessage(ctx, message, here))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := first.Receive(short, nil)
	expect(err != nil, "what was undeliverable here came again")
	second := receiver(session, "go.outcomes", nil)
	message = next(second)
	expect(message.Header.DeliveryCount == 2, "another count")
	check(second.RejectMessage(ctx, message, &amqp.Error{Condition: "app:bad"}))
	check(conn.Close())
}

func selector() {
	conn, session := session()
	for _, colour := range []string{"blue", "red"} {
		message := text(colour)
		message.ApplicationProperties = map[string]any{"colour": colour}
		send(session, "go.selector", message)
	}
	filters := []amqp.LinkFilter{amqp.NewSelectorFilter("colour = 'red'")}
	red := receiver(session, "go.selector", &amqp.ReceiverOptions{Filters: filters})
	message := next(red)
	expect(message.Value == "red", "another colour")
	check(red.AcceptMessage(ctx, message))
	check(conn.Close())
}

func credit() {
	conn, session := session()
	send(session, "go.credit", text("1"), text("2"))
	reader := receiver(session, "go.credit", &amqp.ReceiverOptions{Credit: -1})
	check(reader.IssueCredit(10))
	for _, expected := range []string{"1", "2"} {
		message := next(reader)
		expect(message.Value == expected, "another order")
		check(reader.AcceptMessage(ctx, message))
	}
	check(reader.DrainCredit(ctx, nil)) // takes all credit back, so that none is left to drain
	send(session, "go.credit", text("3"))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := reader.Receive(short, nil)
	expect(err != nil, "a message came without credit")
	check(reader.DrainCredit(ctx, nil))
	check(reader.IssueCredit(1))
	check(reader.AcceptMessage(ctx, next(reader)))
	check(conn.Close())
}

func dynamic() {
	conn, session := session()
	replies := receiver(session, "", &amqp.ReceiverOptions{DynamicAddress: true})
	address := replies.Address()
	request := text("")
	request.Properties = &amqp.MessageProperties{ReplyTo: &address, MessageID: "1"}
	request.ApplicationProperties = map[string]any{"operation": "GET-TYPES"}
	send(session, "$management", request)
	answer := next(replies)
	expect(answer.ApplicationProperties["statusCode"] == int32(200), "another status")
	expect(answer.Properties.CorrelationID == "1", "another correlation")
	check(conn.Close())
}

func large() {
	conn, session := session()
	body := bytes.Repeat([]byte("0123456789"), 200_000)
	send(session, "go.large", amqp.NewMessage(body))
	reader := receiver(session, "go.large", nil)
	message := next(reader)
	expect(bytes.Equal(message.GetData(), body), "another body")
	check(reader.AcceptMessage(ctx, message))
	check(conn.Close())
}

func main() {
	scenarios := map[string]func(){
		"roundtrip": roundtrip, "refusals": refusals, "outcomes": outcomes, "selector": selector,
		"credit": credit, "dynamic": dynamic, "large": large,
	}
	scenarios[os.Args[2]]()
	fmt.Println("ok")
}
